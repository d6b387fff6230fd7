//! The engines behind the gateway: how they are reached and what they say of themselves.

pub mod scrape;

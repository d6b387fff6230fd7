//! The one integration binary: the gateway as its users meet it.

mod check;

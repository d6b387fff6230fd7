//! The policy file, read from YAML with the position of every value, so that errors point to their place.

#![forbid(unsafe_code)]

pub mod access;
pub mod access_log;
pub mod background;
pub mod caching;
mod checks;
pub mod connection;
pub mod discovery;
pub mod embedder;
mod endpoints;
mod engine_scalars;
pub mod engines;
mod env;
mod key_hash;
mod key_source;
pub mod keys;
mod lengths;
mod lenient;
mod limited;
pub mod limits;
mod load;
mod mask;
mod mask_text;
mod mistake;
mod network;
pub mod notifications;
pub mod objectives;
pub mod otel;
mod patterns;
mod place;
pub mod placement;
mod problem;
mod proxies;
pub mod raw;
mod recover;
pub mod redis;
pub mod responses;
mod scalar;
mod schema;
mod secrets;
mod shape;
mod shape_problems;
mod tokenizer;
mod units;
mod url;
mod yaml;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::endpoints::fuzz_endpoints;
#[cfg(any(test, feature = "fuzzing"))]
pub use self::load::fuzz_config;
pub use self::{
    access_log::AccessFormat,
    checks::Logprob,
    endpoints::{EndpointsError, ListedEndpoint, MAX_ENDPOINTS_BYTES, endpoints},
    engine_scalars::{Base, Dialect, HeaderWord, Scrape, ToolCallIds},
    engines::{Exporter, Hourly, Price, Prices},
    key_hash::KeyHash,
    key_source::{KeyFile, KeySource},
    lengths::{Boundary, Context},
    limited::read_limited,
    load::{Config, is_standard_input, plain},
    mistake::{At, Mistake, nearest},
    network::{Network, is_no_engine},
    notifications::{Format, Topic},
    objectives::{Allowance, Multiple, Preset, Prompts, Target},
    problem::{Problem, Problems},
    proxies::Proxies,
    scalar::{Admin, Expression, Field, Pause, Predicted, Scalar, Share, Switch, Token, Total, Url, Word},
    schema::schema,
    shape::{Either, Located, Named, Open, Shapes},
    tokenizer::Tokenizer,
    units::{duration, size},
    url::{authority, has_version, read as read_url},
    yaml::parse as yaml,
};

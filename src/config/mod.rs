//! The policy file, read from YAML with the position of every value, so that errors point to their place.

pub mod access;
pub mod access_log;
pub mod background;
pub mod caching;
mod checks;
pub mod discovery;
pub mod embedder;
mod endpoints;
pub mod engines;
mod env;
mod key_source;
pub mod keys;
mod lengths;
mod load;
mod mask;
mod mask_text;
mod mistake;
pub mod notifications;
pub mod objectives;
pub mod otel;
mod place;
mod problem;
pub mod raw;
mod scalar;
mod schema;
mod secrets;
mod shape;
mod tokenizer;
mod units;
mod url;
mod yaml;

pub use self::{
    access_log::AccessFormat,
    checks::Logprob,
    endpoints::{EndpointsError, ListedEndpoint, endpoints, fuzz_endpoints},
    engines::{Exporter, Hourly, Price},
    key_source::{KeyFile, KeySource},
    lengths::{Boundary, Context},
    load::{Config, fuzz_config, plain},
    mistake::{At, Mistake, nearest},
    notifications::{Format, Topic},
    objectives::{Prompts, Target},
    problem::{Problem, Problems},
    scalar::{
        Admin, Balance, Dialect, Expression, Field, KeyHash, Pause, Predicted, Scalar, Scrape, Share, Switch, Token,
        Total, Url, Word,
    },
    schema::schema,
    shape::{Either, Located, Named, Open, Shapes},
    tokenizer::Tokenizer,
    units::{duration, size},
    url::{authority, read as read_url},
    yaml::parse as yaml,
};

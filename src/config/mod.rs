//! The policy file: read from YAML with the place of every value kept, so that whatever is wrong can be pointed at.

mod checks;
mod env;
mod load;
mod mask;
mod mistake;
mod problem;
pub mod raw;
mod scalar;
mod schema;
mod shape;
mod units;
mod url;
mod yaml;

pub use self::{
    checks::Logprob,
    load::{Config, fuzz_config, plain},
    mistake::{At, Mistake, nearest},
    problem::{Problem, Problems},
    scalar::{
        Admin, Balance, Boundary, Context, Dialect, Field, KeyHash, Pause, Scalar, Scrape, Share, Switch, Token, Total,
        Url, Word,
    },
    schema::schema,
    shape::{Either, Located, Named, Open, Shapes},
    units::{duration, size},
    url::{authority, read as read_url},
    yaml::parse as yaml,
};

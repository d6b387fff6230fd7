//! Observability for operators: one table of metrics with the handles that update it, and the journal's writer.

#![forbid(unsafe_code)]

mod backend;
mod background;
mod cache;
mod caller;
mod cascade;
mod definition;
mod diagnosis;
mod distribution;
mod encode;
mod format;
mod journal;
mod key;
mod live;
mod metrics;
mod page;
mod pool;
mod rotating;
mod series;
mod shared;
mod signs;
mod spending;
mod stores;
mod table;
mod work;

pub use self::{
    backend::{BackendMetrics, BackendTotals, Latencies, PrefixHits},
    background::{PairResult, Purpose},
    cache::{CacheMetrics, Lookup, LookupStage},
    caller::{CallerMetrics, CallerTimes, Source},
    cascade::CascadeMetrics,
    diagnosis::{Diagnosis, PoolHealth, STATES},
    format::{MetricsFormat, accepts_gzip},
    journal::{Entry, Journal, JournalCounters},
    key::{KeyMetrics, NO_KEY},
    live::{
        AccountLive, AccuracyLive, BackendLive, BudgetLive, BurnLive, CacheLive, CacheLogLive, EngineLive,
        FalseHitsLive, Live, OutputLive, PoolLive, SchedulerLive, SloLive, SourceLive, TieredLive,
    },
    metrics::{InFlight, Metrics, Stage},
    pool::{PoolMetrics, Shed},
    signs::{EngineQueue, Stalls, Tail},
    spending::{Rented, Spending},
    stores::{Store, StoreFailure, StoreWrites},
    table::{ALL, Def, Kind},
    work::Use,
};

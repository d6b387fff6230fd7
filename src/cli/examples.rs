//! Examples for the help texts of commands.

pub(super) const SERVE: &str = "\
Examples:
  signalbox serve                                           over engines of this machine, or simulated ones
  signalbox serve --config signalbox.yaml
  signalbox serve --config policies/teams.yaml --simulate   tries a policy without its engines";

pub(super) const CHECK: &str = "\
Examples:
  signalbox check signalbox.yaml
  signalbox check signalbox.yaml --allow-unset   in CI, where the secrets are not set
  signalbox check signalbox.yaml --probe         asks each engine for its models, and generates nothing";

pub(super) const EXPLAIN: &str = "\
Examples:
  signalbox explain policies/two-tier.yaml request.json
  signalbox explain policies/two-tier.yaml request.json --json";

pub(super) const CALIBRATE: &str = "\
Examples:
  signalbox calibrate --prompts prompts.txt --shares 75%,25%";

pub(super) const SIMULATE: &str = "\
Examples:
  signalbox simulate --trace excerpt --policy policies/two-pools.yaml --seeds 2
  signalbox simulate --trace trace.csv --policy old.yaml --policy new.yaml --rate 0.5..2
  signalbox simulate --trace excerpt --policy policies/two-tier.yaml --route tiers";

pub(super) const REPLAY: &str = "\
Examples:
  signalbox replay --journal journal.jsonl --policy new.yaml
  signalbox replay --journal journal.jsonl --policy new.yaml --was old.yaml";

pub(super) const BENCH: &str = "\
Examples:
  signalbox bench --rate 20 --duration 30s
  signalbox bench --url http://127.0.0.1:8000 --concurrency 8 --requests 200 --json

SIGINT and SIGTERM end a run early; the figures up to then are printed.";

pub(super) const EVALUATE: &str = "\
Examples:
  signalbox evaluate --outcomes outcomes.jsonl";

pub(super) const CACHE: &str = "\
Examples:
  signalbox cache purge --key web
  signalbox cache eval --pairs pairs.jsonl";

pub(super) const KEY: &str = "\
Examples:
  signalbox key new --id web
  signalbox key list --admin http://127.0.0.1:4101
  signalbox key revoke web";

pub(super) const TOP: &str = "\
Examples:
  signalbox top
  signalbox top --once --admin http://10.0.0.5:4101";

pub(super) const USAGE: &str = "\
Examples:
  signalbox usage --from 2026-11-01
  signalbox usage --key web --format jsonl";

pub(super) const SCHEMA: &str = "\
Examples:
  signalbox schema > policy.schema.json";

pub(super) const KEY_NEW: &str = "\
Examples:
  signalbox key new --id web
  signalbox key new --id web --json";

pub(super) const KEY_LIST: &str = "\
Examples:
  signalbox key list
  signalbox key list --admin http://10.0.0.5:4101 --json";

pub(super) const KEY_REVOKE: &str = "\
Examples:
  signalbox key revoke web";

pub(super) const KEY_RESTORE: &str = "\
Examples:
  signalbox key restore web";

pub(super) const CACHE_PURGE: &str = "\
Examples:
  signalbox cache purge --key web";

pub(super) const CACHE_EVAL: &str = "\
Examples:
  signalbox cache eval --pairs pairs.jsonl --budget 1%";

pub(super) const BACKEND: &str = "\
Examples:
  signalbox backend list
  signalbox backend add main gpu-9 http://10.0.0.9:8000/v1 --set max_concurrency=32
  signalbox backend drain main gpu-9";

pub(super) const BACKEND_LIST: &str = "\
Examples:
  signalbox backend list
  signalbox backend list --admin http://10.0.0.5:4101 --json";

pub(super) const BACKEND_ADD: &str = "\
Examples:
  signalbox backend add main gpu-9 http://10.0.0.9:8000/v1
  signalbox backend add main gpu-9 http://10.0.0.9:8000/v1 --set max_concurrency=32";

pub(super) const BACKEND_REMOVE: &str = "\
Examples:
  signalbox backend remove main gpu-9";

pub(super) const BACKEND_DRAIN: &str = "\
Examples:
  signalbox backend drain main gpu-9";

pub(super) const BACKEND_UNDRAIN: &str = "\
Examples:
  signalbox backend undrain main gpu-9";

pub(super) const KEY_CREATE: &str = "\
Examples:
  signalbox key create web --team search --rpm 600 --budget usd=50/month
  signalbox key create trial --models auto --expires 2027-03-01";

pub(super) const KEY_UPDATE: &str = "\
Examples:
  signalbox key update web --rpm 1200 --budget usd=80/month";

pub(super) const KEY_ROTATE: &str = "\
Examples:
  signalbox key rotate web
  signalbox key rotate web --overlap 7d";

pub(super) const KEY_DELETE: &str = "\
Examples:
  signalbox key delete web";

pub(super) const KEY_HASH: &str = "\
Examples:
  signalbox key hash keys.txt
  signalbox key hash --id web";

pub(super) const NOTIFY: &str = "\
Examples:
  signalbox notify policy.yaml";

pub(super) const RULES: &str = "\
Examples:
  signalbox rules policy.yaml > objectives.yml";

pub(super) const IMPORT: &str = "\
Examples:
  signalbox import litellm config.yaml --output policy.yaml
  signalbox import litellm config.yaml --strict";

pub(super) const PRICES: &str = "\
Examples:
  signalbox prices
  signalbox prices --json";

pub(super) const MAN: &str = "\
Examples:
  signalbox man
  signalbox man --out target/man";

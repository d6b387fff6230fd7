use super::*;
use crate::Kind;
use signalbox_config::Config;
use signalbox_policy::{self as policy, Policy};

fn imported(text: &str) -> Imported {
    import("config.yaml", text, &|path| match path {
        "more.yaml" => Ok("model_list: [{ model_name: b, litellm_params: { model: gpt-4o-mini } }]\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    })
    .unwrap_or_else(|problem| panic!("{problem:?}"))
}

/// The compiled policy, with a made-up value for every variable.
fn compiled(imported: &Imported) -> Policy {
    let var = |name: &str| {
        Some(match name {
            _ if name.ends_with("_HASH") => format!("blake3:{}", "0".repeat(64)),
            _ if name.contains("BASE") || name.contains("URL") => {
                format!("http://{}", name.to_lowercase().replace('_', "-"))
            }
            _ => format!("value-of-{name}"),
        })
    };
    let config = Config::parse("policy.yaml", &imported.policy, &var, &|_| Err(io::ErrorKind::NotFound.into()));
    let config =
        config.unwrap_or_else(|problems| panic!("{:?}\n{}", problems.iter().collect::<Vec<_>>(), imported.policy));
    policy::compile(&config)
        .unwrap_or_else(|problems| panic!("{:?}\n{}", problems.iter().collect::<Vec<_>>(), imported.policy))
}

fn places(imported: &Imported, kind: Kind) -> Vec<String> {
    imported.of(kind).map(|note| format!("{}: {}", note.line, note.place)).collect()
}

#[test]
fn deployments_of_one_name_share_a_pool() {
    let imported = imported(
        "model_list:
- model_name: gpt-4o
  litellm_params: { model: azure/prod, api_base: https://acme.openai.azure.com/, api_key: os.environ/AZ, api_version: 2024-10-21, weight: 2, rpm: 100, order: 1 }
  model_info: { base_model: azure/gpt-4o }
- model_name: gpt-4o
  litellm_params: { model: openai/gpt-4o, api_key: sk-abc, weight: 1, rpm: 50, order: 1 }
- model_name: gpt-4o
  litellm_params: { model: gpt-4o, api_key: sk-abc }
",
    );
    let policy = compiled(&imported);
    let pools: Vec<_> = policy.pools.iter().map(|pool| (&*pool.name, pool.backends.len())).collect();
    assert_eq!(pools, [("gpt-4o", 2), ("gpt-4o-2", 1)]);
    let weights: Vec<_> = policy.pools[0].backends.iter().map(|backend| backend.weight).collect();
    assert!(weights[0].is_some_and(|share| (share - 0.6667).abs() < 1e-9) && weights[1].is_none(), "{weights:?}");
    assert_eq!(policy.pools[0].backends[0].deployment.as_deref(), Some("prod"));
    assert_eq!(policy.engines[0].url, "https://acme.openai.azure.com");
    assert_eq!(policy.accounts[0].limits.rpm, Some(100));
    assert!(!imported.policy.contains("sk-abc"), "{}", imported.policy);
    let plain = imported.variables.iter().find(|variable| variable.plain_at.is_some()).unwrap();
    assert_eq!((&*plain.name, plain.plain_at), ("OPENAI_API_KEY", Some(6)));
    assert!(policy.pools[0].price.is_some() && policy.pools[0].context == Some(128_000), "the table is used");
}

#[test]
fn patterns_keep_or_lose_their_prefix() {
    let imported = imported(
        "model_list:
- { model_name: 'openai/*', litellm_params: { model: 'openai/*' } }
- { model_name: 'claude-*', litellm_params: { model: 'anthropic/claude-*' } }
- { model_name: '*', litellm_params: { model: 'openrouter/*' } }
- { model_name: 'my/*', litellm_params: { model: 'openrouter/their/*' } }
- { model_name: '*-x', litellm_params: { model: 'openai/*-x' } }
- { model_name: '*', litellm_params: { model: '*' } }
",
    );
    let policy = compiled(&imported);
    let strip: Vec<_> = policy.pools.iter().map(|pool| pool.backends[0].strip.as_deref()).collect();
    assert_eq!(strip, [Some("openai/"), None, None, None]);
    assert_eq!(policy.pools[0].backends[0].model_for(Some("openai/gpt-4o")), Some("gpt-4o"));
    assert_eq!(
        policy.models.patterns().map(|(glob, _)| &*glob.0).collect::<Vec<_>>(),
        ["openai/*", "claude-*", "*-x", "*"]
    );
    assert_eq!(imported.of(Kind::Gap).count(), 2, "{:?}", places(&imported, Kind::Gap));
}

#[test]
fn addresses_are_those_that_litellm_would_call() {
    let imported = imported(
        "model_list:
- { model_name: a, litellm_params: { model: azure/x, api_base: 'https://openai-eu.openai.azure.com/', api_version: '1' } }
- { model_name: b, litellm_params: { model: azure/x, api_base: 'https://openai.company.example/openai/deployments/x', api_version: '1' } }
- { model_name: c, litellm_params: { model: openai/x, api_base: 'https://models.github.ai/inference', api_key: os.environ/K } }
- { model_name: d, litellm_params: { model: perplexity/sonar } }
- { model_name: e, litellm_params: { model: openai/os.environ/NAME, api_base: os.environ/BASE } }
- { model_name: f, litellm_params: { model: openai/x, api_base: 'http://gpu:8000/v1' } }
",
    );
    let policy = imported.policy.as_str();
    for line in [
        "https://openai-eu.openai.azure.com\"",
        "https://openai.company.example\"",
        "models: { url: \"https://models.github.ai/inference\", account: models, base: exact }",
        "url: \"https://api.perplexity.ai\", account: perplexity, base: exact",
        "url: \"${BASE}\", base: exact",
        "model: \"${NAME}\"",
        "url: \"http://gpu:8000/v1\" }",
    ] {
        assert!(policy.contains(line), "{line}\n{policy}");
    }
    assert_eq!(imported.of(Kind::Gap).count(), 0, "{:?}", places(&imported, Kind::Gap));
}

#[test]
fn what_is_left_out_is_not_sent_elsewhere() {
    let imported = imported(
        "model_list:
- { model_name: signed, litellm_params: { model: sagemaker/x } }
- { model_name: secret, litellm_params: { model: os.environ/MODEL } }
- { model_name: other/x, litellm_params: { model: sagemaker/x } }
- { model_name: half, litellm_params: { model: sagemaker/x } }
- { model_name: half, litellm_params: { model: openai/gpt-4o } }
- { model_name: '*', litellm_params: { model: openai/* } }
router_settings: { model_group_alias: { also: signed } }
",
    );
    let policy = compiled(&imported);
    for name in ["signed", "secret", "other/x", "also"] {
        assert!(policy.models.get(name).is_none() && policy.models.refusal(name).is_some(), "{name}");
    }
    for name in ["half", "gpt-4o"] {
        assert!(policy.models.get(name).is_some(), "{name}");
    }
}

#[test]
fn fallbacks_become_pools_that_take_over_after_failures() {
    let imported = imported(
        "model_list:
- { model_name: a, litellm_params: { model: gpt-4o } }
- { model_name: b, litellm_params: { model: gpt-4o-mini } }
- { model_name: c, litellm_params: { model: gpt-4.1 } }
litellm_settings:
  fallbacks: [{ a: [b, gone] }]
  context_window_fallbacks: [{ a: [c] }]
  default_fallbacks: [b]
router_settings: { model_group_alias: { d: a, e: { model: b, hidden: true }, a: b, f: gone } }
",
    );
    let policy = compiled(&imported);
    let route = policy.models.get("a").unwrap().first().unwrap();
    assert_eq!(route.targets.iter().map(|target| target.pool).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(!route.spill);
    assert_eq!(policy.models.get("c").unwrap().first().unwrap().targets.len(), 2, "the default");
    assert_eq!(policy.models.get("d").unwrap().first().unwrap().targets[0].pool, 0);
    let gaps = places(&imported, Kind::Gap);
    assert_eq!(gaps.len(), 4, "{gaps:?}");
}

#[test]
fn secrets_of_any_kind_stay_out_of_the_policy() {
    let imported = imported(
        "model_list:
- { model_name: a, litellm_params: { model: gpt-4o, api_key: sk-one } }
- { model_name: b, litellm_params: { model: gpt-4o, api_key: sk-two } }
- { model_name: c, litellm_params: { model: openai/q, api_base: 'http://h:1/v1', api_key: none } }
- { model_name: d, litellm_params: { model: gpt-4o, litellm_credential_name: shared } }
credential_list: [{ credential_name: shared, credential_values: { api_key: os.environ/OPENAI_API_KEY } }]
litellm_settings: { cache: true, cache_params: { type: redis, host: os.environ/REDIS_HOST, password: hunter2 } }
environment_variables: { REDIS_HOST: cache.internal, OPENAI_API_KEY: sk-three }
general_settings: { master_key: sk-master, max_parallel_requests: 9 }
",
    );
    for secret in ["sk-one", "sk-two", "sk-three", "sk-master", "hunter2"] {
        assert!(!imported.policy.contains(secret), "{secret} in {}", imported.policy);
    }
    assert!(
        imported
            .policy
            .contains("url: \"redis://${REDIS_HOST:-cache.internal}:6379\", password: \"${REDIS_PASSWORD}\""),
        "{}",
        imported.policy
    );
    let hash = blake3::hash(b"sk-master").to_hex();
    assert!(imported.policy.contains(&*hash));
    let names: Vec<_> = imported.variables.iter().map(|variable| &*variable.name).collect();
    assert_eq!(
        names,
        ["OPENAI_API_KEY_2", "OPENAI_API_KEY_3", "OPENAI_API_KEY", "REDIS_PASSWORD", "SIGNALBOX_CACHE_KEY"]
    );
}

#[test]
fn included_files_are_added() {
    let text = "include: [more.yaml]\nmodel_list: [{ model_name: a, litellm_params: { model: gpt-4o } }]\n";
    assert_eq!(imported(text).deployments, (2, 2));
    let gone = import("c", "include: [gone.yaml]\n", &|_| Err(io::ErrorKind::NotFound.into())).unwrap_err();
    assert!(gone.message.contains("gone.yaml"), "{gone:?}");
}

#[test]
fn other_files_are_rejected() {
    for text in [
        "",
        "pools: {}",
        "- 1",
        "model_list: [",
        "model_list: [{ model_name: a, litellm_params: { model: bedrock/x } }]",
    ] {
        assert!(import("c", text, &|_| Err(io::ErrorKind::NotFound.into())).is_err(), "{text}");
    }
}

#[test]
fn numbers_of_any_size_make_a_valid_policy() {
    let imported = imported(
        "model_list:
- { model_name: a, litellm_params: { model: gpt-4o, rpm: 0, tpm: 1e99, timeout: 1e300, stream_timeout: 0.0001, weight: 1e-9, input_cost_per_token: 1e-7, output_cost_per_token: 2e-7, max_parallel_requests: 3 } }
- { model_name: a, litellm_params: { model: gpt-4.1, weight: 1e9, timeout: 3 } }
general_settings: { max_request_size_mb: 2000, global_max_parallel_requests: 7 }
",
    );
    let policy = compiled(&imported);
    assert_eq!(policy.limits.in_flight, 7);
    assert!((policy.pools[0].price.unwrap().input - 0.1).abs() < 1e-9);
}

#[test]
fn weights_count_under_simple_shuffle_alone() {
    let text = "model_list:
- { model_name: a, litellm_params: { model: openai/a, api_base: http://x/v1, weight: 3, api_key: os.environ/K, rpm: 9 } }
- { model_name: a, litellm_params: { model: openai/b, api_base: http://x/v1, api_key: os.environ/K } }
- { model_name: a, litellm_params: { model: openai/c, api_base: http://y/v1, order: 2 } }
";
    let pools =
        |imported: &Imported| compiled(imported).pools.iter().map(|pool| pool.backends.len()).collect::<Vec<_>>();
    // A deployment without `order` comes after those with one.
    let text = text.replace("http://x/v1", "http://x/v1, order: 1");
    let shuffled = imported(&text);
    assert_eq!(pools(&shuffled), [1, 1, 1]);
    let all: Vec<_> =
        shuffled.notes.iter().map(|note| format!("{}: {}: {}", note.line, note.place, note.text)).collect();
    let said = |what: &str| all.iter().any(|note| note.starts_with(what));
    assert!(said("3: model_list `a` weight: a standby") && said("4: model_list `a` order: a standby"), "{all:?}");
    assert!(
        said("2: model_list `a` rpm, tpm: not imported because other deployments of the account have no rpm"),
        "{all:?}"
    );
    let busy = imported(&format!("{text}router_settings: {{ routing_strategy: least-busy }}\n"));
    assert_eq!(pools(&busy), [2, 1]);
    assert!(busy.notes.iter().any(|note| note.text.starts_with("not imported because LiteLLM reads weights")));
}

use super::{fixed::FixedFacts, *};
use signalbox_types::Name;

fn names() -> Names {
    let list = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
    Names {
        pools: list(&["small", "large", "with-dash"]),
        routes: list(&["chat", "auto.2"]),
        keys: list(&["web", "nightly"]),
    }
}

fn compile(text: &str) -> Condition {
    Condition::compile(text, &names()).unwrap_or_else(|mistakes| panic!("{text}: {mistakes:#?}"))
}

fn facts() -> FixedFacts {
    FixedFacts {
        tokens: 9000,
        complexity: 0.7,
        language: "en".to_owned(),
        model: "gpt-4o-mini".to_owned(),
        class: "interactive".to_owned(),
        stream: true,
        tools: 2,
        images: 0,
        audio: 0,
        video: 1,
        files: 2,
        schema: false,
        max_tokens: 512,
        turns: 3,
        headers: vec![("x-tier".to_owned(), "gold".to_owned())],
        key_id: "web".to_owned(),
        key_team: "search".to_owned(),
        key_tags: vec!["eu-1".into(), "internal".into()],
        ttft_p95: 0.9,
        queue: 7,
        attainment: 0.96,
        burn: 1.5,
        slo: "burning".to_owned(),
        // A Saturday, 13:00 UTC.
        unix_time: 1_795_266_000,
    }
}

/// Each mistake below the part that it marks.
fn reported(text: &str) -> String {
    let Err(mistakes) = Condition::compile(text, &names()) else { return format!("{text}\n  passes\n") };
    let mut lines = format!("{text}\n");
    for Mistake { range, message, help } in mistakes {
        let (before, under) = (text[..range.start].chars().count(), text[range].chars().count().max(1));
        let help = help.unwrap_or_else(|| "none".to_owned());
        lines.extend([&*" ".repeat(before), &"^".repeat(under), " ", &message, "\n  help: ", &help, "\n"]);
    }
    lines
}

const BROKEN: &[&str] = &[
    // Names.
    "prompt.tokns > 8000",
    "promt.tokens > 8000",
    "tokens > 8000",
    "prompt.size > 3",
    "prompt > 3",
    "weather == \"fine\"",
    "request.class == batch",
    "prompt.tokens.count > 3",
    "pool.smal.queue > 3",
    "pool.nowhere.queue > 3",
    "pool.with-dash.queue > 3",
    "pool.small.queu > 3",
    "pool.small > 3",
    "pool[key.id].queue > 3",
    "route.chat.queue > 3",
    "route.auto.2.burn > 3",
    "route[\"auto.3\"].burn > 3",
    "route.chat",
    "route.chat.slo == \"Burning\"",
    "headers[\"x tier\"] == \"gold\"",
    "headers[key.id] == \"gold\"",
    "headers.x-tier == \"gold\"",
    "\"x:tier\" in headers",
    // Kinds.
    "prompt.tokens > 'abc'",
    "prompt.tokens > \"8000\"",
    "request.tools && true",
    "request.tools && request.images",
    "!prompt.tokens",
    "prompt.tokens",
    "request.model",
    "key.tags",
    "key.tags.filter(tag, tag == \"x\")",
    "[\"x\"]",
    "request.stream == 1",
    "request.stream > false",
    "request.model == 4",
    "prompt.tokens * 0.5 > 100",
    "pool.small.ttft_p95 > pool.large.ttft_p95 * 2",
    "prompt.tokens > duration(\"1s\")",
    "pool.small.ttft_p95 > \"800ms\"",
    "\"gpt\" in request.model",
    "3 in key.tags",
    "request.class in [\"batch\", 3]",
    "key.tags == \"x\"",
    "prompt.tokens ? 1 : 2",
    "-request.model == \"x\"",
    "null == key.team",
    // Values.
    "request.class == \"interactve\"",
    "request.class in [\"batch\", \"Interactive\"]",
    "pool.small.slo == \"burnt\"",
    "pool.small.slo == burning",
    "pool.small.slo > 2",
    "prompt.language == \"english\"",
    "prompt.language != \"EN\"",
    "key.id == \"wbe\"",
    "prompt.complexity > 7",
    "prompt.tokens < 0",
    "request.tools >= 0",
    "pool.small.attainment > 1",
    "1.5 < prompt.complexity",
    "true",
    "1 > 2",
    "prompt.tokens > 5 || true",
    "prompt.tokens > 1 / 0",
    "prompt.tokens > 99999999999999999999",
    // Functions.
    "request.model.startswith(\"gpt\")",
    "request.model.lower() == \"x\"",
    "startsWith(request.model, \"gpt\")",
    "size(prompt.tokens) > 3",
    "key.tags.contains(\"x\")",
    "request.model.matches(\"gpt-(4\")",
    "request.model.matches(key.id)",
    "pool.small.ttft_p95 > duration(\"fast\")",
    "has(headers.x)",
    "time.in(\"22:00-25:00\", \"Europe/Berlin\")",
    "time.in(\"22:00-06:00\", \"Berlin\")",
    "time.in(\"22:00-06:00\")",
    "time.in(\"monday 09:00-17:00\", \"UTC\")",
    "key.tags.exists(tag, key.tags.exists(other, tag == other))",
    "request.model.exists(c, c == \"x\")",
    // Syntax.
    "",
    "prompt.tokens > 8k",
    "prompt.tokens > 8_000",
    "pool.small.ttft_p95 > 800ms",
    "prompt.complexity > 50%",
    "prompt.tokens = 8000",
    "prompt.tokens => 8000",
    "prompt.tokens <> 8000",
    "request.stream and request.schema",
    "request.stream OR request.schema",
    "not request.stream",
    "request.stream & request.schema",
    "(prompt.tokens > 8000",
    "prompt.tokens > 8000)",
    "(prompt.tokens > 8000]",
    "prompt.tokens >",
    "> 8000",
    "prompt.tokens > > 8000",
    "prompt.tokens 8000",
    "prompt. > 8000",
    "request.model == \"gpt",
    "request.model == “gpt”",
    "request.model.matches(\"\\d\")",
    "request.model == \"\\u12\"",
    "request.model == \"\\08\"",
    "request.stream ? request.schema",
    "request.stream, request.schema",
    "if request.stream",
    "request.stream # often",
    "{\"a\": 1} == {}",
    "prompt.true == 1",
    "!!request.stream",
];

#[test]
fn mistakes_are_reported_at_their_position() {
    let lines: Vec<_> = BROKEN.iter().map(|text| reported(text)).collect();
    insta::with_settings!({ snapshot_path => "../../../../tests/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("conditions", lines.join("\n"));
    });
}

#[test]
fn long_and_deep_conditions_are_rejected_before_parsing() {
    let deep = |open: &str, middle: &str, close: &str| [&open.repeat(120), middle, &close.repeat(120)].concat();
    for (text, message) in [
        (format!("request.stream{}", " ".repeat(5000)), "longer than 4096 bytes"),
        (deep("(", "request.stream", ")"), "nested too deep from here on"),
        (deep("[", "1", "]"), "nested too deep from here on"),
        (deep("size(", "1", ")"), "nested too deep from here on"),
        (deep("request.stream ? 1 : ", "2", ""), "nested too deep from here on"),
        (deep("1 + ", "1", ""), "nested too deep from here on"),
        (deep("", "prompt", ".a"), "nested too deep from here on"),
        (deep("", "key.tags", "[0]"), "nested too deep from here on"),
        // If this were a text for the lexer but not for CEL's parser, that parser would descend into the brackets.
        (deep("", "request.model == \"\\u12", "[") + "\"", "`\\u12` stands for nothing"),
        (deep("!", "request.stream", ""), "`!` after `!`"),
    ] {
        assert_eq!(Condition::compile(&text, &names()).unwrap_err()[0].message, message, "{}", &text[..40]);
    }
    let wide = vec!["key.id == \"web\""; 100].join(" || ");
    assert!(compile(&wide).holds(&facts()));
    // The deepest accepted condition must fit on a test thread's stack (2 MB).
    let chain = format!("{}request.model == \"x\"", "\"a\" + ".repeat(28));
    assert!(!compile(&chain).holds(&facts()));
    let deepest = format!("{}request.stream{}", "(".repeat(6), ")".repeat(6));
    assert!(compile(&deepest).holds(&facts()));
}

#[test]
fn conditions_are_evaluated() {
    for (text, holds) in [
        ("prompt.tokens > 8000", true),
        ("prompt.tokens > 9000", false),
        ("prompt.tokens >= 9000", true),
        ("9001 > prompt.tokens", true),
        ("prompt.tokens <= 8999", false),
        ("request.tools > 0 || request.images > 0", true),
        ("request.audio == 0 && request.video == 1 && request.files == 2", true),
        ("prompt.complexity > 0.6 && prompt.language == 'en'", true),
        ("request.class == \"batch\"", false),
        ("request.model.startsWith(\"gpt-4\") && request.model.endsWith('mini') && request.model.contains('4o')", true),
        ("request.model.matches(r\"^gpt-\\d\")", true),
        ("request.model in [\"gpt-4o\", \"gpt-4o-mini\"]", true),
        ("headers[\"X-Tier\"] == \"gold\" && \"x-tier\" in headers", true),
        ("headers[\"x-other\"] == \"\" && !(\"X-Other\" in headers)", true),
        ("headers.authorization == \"\"", true),
        ("\"internal\" in key.tags", true),
        ("key.tags.exists(tag, tag.startsWith(\"eu-\"))", true),
        ("key.tags.all(tag, tag.startsWith(\"eu-\"))", false),
        ("key.tags.exists_one(tag, tag.startsWith(\"eu-\") && prompt.tokens > 8000)", true),
        ("size(key.tags.filter(tag, tag.contains(headers[\"x-none\"]))) == 2", true),
        ("key.tags.map(tag, size(tag))[0] == 4", true),
        ("key.tags[0] == \"eu-1\" && key.tags[1] + \"!\" == \"internal!\"", true),
        ("key.tags[2] == \"eu-1\"", false),
        ("key.tags == key.tags && !(key.tags != key.tags)", true),
        ("!(key.tags[2] == \"eu-1\")", false),
        ("key.tags[2] == \"eu-1\" || request.stream", true),
        ("size(key.tags) == 2 && size(request.model) == 11 && request.model.size() == 11", true),
        ("pool.small.ttft_p95 > duration(\"800ms\") && pool.small.ttft_p95 < 1", true),
        ("pool.small.ttft_p95 > duration(\"1s500ms\")", false),
        ("pool[\"with-dash\"].queue > 5 && pool.large.attainment < 0.97 && pool.large.burn > 1", true),
        ("pool.small.slo == \"burning\" && pool.small.slo != \"ok\"", true),
        ("route.chat.slo == \"burning\" && route[\"auto.2\"].burn > 1.0", true),
        ("pool.large.slo in [\"ok\", \"exhausted\"]", false),
        ("time.in(\"sat 14:00-14:01\", \"Europe/Berlin\")", true),
        ("time.in(\"mon-fri\", \"Europe/Berlin\")", false),
        ("double(prompt.tokens) * 0.5 > 4000.0", true),
        ("(request.stream ? prompt.tokens : 0) > 8000", true),
        ("prompt.tokens % 2 == 0 && prompt.tokens / 2 == 4500", true),
        ("prompt.tokens / request.images > 1", false),
        ("prompt.tokens / request.images > 1 || request.stream", true),
        ("string(request.tools) + request.model == \"2gpt-4o-mini\"", true),
        ("int(headers[\"x-tier\"]) > 3", false),
        ("int(pool.small.burn) == 1", true),
        ("-request.tools < 0", true),
        ("request.tools - 3 == -1", true),
        ("request.stream == true && request.schema != true", true),
    ] {
        assert_eq!(compile(text).holds(&facts()), holds, "{text}");
    }
}

#[test]
fn a_condition_lists_its_variables() {
    let condition = compile("prompt.tokens > 8000 && (request.tools > 0 || key.tags.exists(t, t == headers[\"a\"]))");
    let expected = [Variable::PromptTokens, Variable::RequestTools, Variable::Headers, Variable::KeyTags];
    assert_eq!(condition.variables(), expected);
    assert_eq!(condition, compile(condition.text()));
    assert_ne!(condition, compile("request.stream"));
    assert_eq!(condition.to_string(), condition.text());
    assert_eq!(format!("{:?}", compile("request.stream")), "Condition(\"request.stream\")");
}

#[test]
fn every_example_of_the_table_compiles_and_refers_to_its_variable() {
    for entry in variables::VARIABLES {
        assert_eq!(compile(entry.example).variables(), [entry.variable], "{}", entry.example);
    }
    for (name, example) in variables::FUNCTIONS {
        assert!(name == "has" || example.contains(name), "{name}");
    }
}

mod alike {
    //! Compares the evaluated tree with CEL's interpreter on made-up conditions and facts.

    use cel::{Context, Value, parser::PrattParser};
    use proptest::prelude::*;

    use super::*;

    /// The result of CEL's interpreter for the same text, with every fact under its name there.
    fn interpreted(text: &str, facts: &FixedFacts) -> Option<bool> {
        let mut context = Context::default();
        let map = |entries: Vec<(&str, Value)>| -> Value {
            entries.into_iter().collect::<std::collections::HashMap<&str, Value>>().into()
        };
        let int = |n: u64| Value::Int(i64::try_from(n).unwrap());
        let text_value = |text: &str| Value::from(text);
        context.add_variable_from_value(
            "prompt",
            map(vec![
                ("tokens", int(facts.tokens)),
                ("complexity", Value::Float(facts.complexity)),
                ("language", text_value(&facts.language)),
            ]),
        );
        context.add_variable_from_value(
            "request",
            map(vec![
                ("model", text_value(&facts.model)),
                ("class", text_value(&facts.class)),
                ("stream", Value::Bool(facts.stream)),
                ("tools", int(facts.tools)),
                ("images", int(facts.images)),
                ("max_tokens", int(facts.max_tokens)),
            ]),
        );
        let sent = facts.headers.iter().map(|(name, value)| (&**name, text_value(value))).collect();
        context.add_variable_from_value("headers", map(sent));
        let tags: Vec<String> = facts.key_tags.iter().map(ToString::to_string).collect();
        context.add_variable_from_value("key", map(vec![("tags", tags.into()), ("team", text_value(&facts.key_team))]));
        let pool = map(vec![
            ("ttft_p95", Value::Float(facts.ttft_p95)),
            ("queue", int(facts.queue)),
            ("burn", Value::Float(facts.burn)),
            ("slo", text_value(&facts.slo)),
        ]);
        context.add_variable_from_value("pool", map(vec![("small", pool.clone()), ("with-dash", pool)]));
        let route = map(vec![("burn", Value::Float(facts.burn)), ("slo", text_value(&facts.slo))]);
        context.add_variable_from_value("route", map(vec![("chat", route)]));
        match Value::resolve(&PrattParser::default().parse(text).unwrap(), &context) {
            Ok(Value::Bool(value)) => Some(value),
            Ok(other) => panic!("{text}: {other:?}"),
            Err(_) => None,
        }
    }

    /// The result of the evaluated tree; `None` if it fails.
    fn evaluated(condition: &Condition, facts: &FixedFacts) -> Option<bool> {
        let memory = Memory::default();
        condition.root.holds(&Scope::new(Some(facts), &memory)).ok()
    }

    fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<String> {
        prop::sample::select(texts).prop_map(str::to_owned).boxed()
    }

    fn joined(signs: &'static [&'static str], sides: BoxedStrategy<String>) -> BoxedStrategy<String> {
        (sides.clone(), prop::sample::select(signs), sides).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")).boxed()
    }

    fn ints() -> BoxedStrategy<String> {
        let leaf = prop_oneof![
            3 => one_of(&["prompt.tokens", "request.tools", "request.images", "request.max_tokens", "pool.small.queue", "size(request.model)", "size(key.tags)", "key.tags.map(t, size(t))[0]", "key.tags.map(t, size(t))[request.tools]", "int(pool.small.burn)", "int(headers[\"x-tier\"])", "size(key.tags.filter(t, t.contains(\"g\")))"]),
            1 => one_of(&["0", "1", "2", "7", "-3", "9000", "9223372036854775807"]),
        ];
        leaf.prop_recursive(2, 6, 2, |inner| {
            prop_oneof![
                joined(&["+", "-", "*", "/", "%"], inner.clone().boxed()),
                inner.clone().prop_map(|of| format!("-({of})")),
                inner.prop_map(|of| format!("(request.stream ? {of} : 3)")),
            ]
        })
        .boxed()
    }

    fn doubles() -> BoxedStrategy<String> {
        let leaf = prop_oneof![
            one_of(&[
                "prompt.complexity",
                "pool.small.ttft_p95",
                "pool[\"with-dash\"].burn",
                "0.5",
                "0.0",
                "-1.25",
                "1e3",
                "double(headers[\"x-tier\"])"
            ]),
            ints().prop_map(|of| format!("double({of})")),
        ];
        leaf.prop_recursive(2, 6, 2, |inner| joined(&["+", "-", "*", "/"], inner.boxed())).boxed()
    }

    fn texts() -> BoxedStrategy<String> {
        let leaf = one_of(&[
            "request.model",
            "headers[\"x-tier\"]",
            "key.team",
            "pool.small.slo",
            "route.chat.slo",
            "\"gpt\"",
            "'4o'",
            "\"\"",
            "\"é\\\"\\n\"",
            "r'\\d'",
        ]);
        leaf.prop_recursive(1, 3, 2, |inner| {
            prop_oneof![
                joined(&["+"], inner.clone().boxed()),
                ints().prop_map(|of| format!("string({of})")),
                doubles().prop_map(|of| format!("string({of})"))
            ]
        })
        .boxed()
    }

    fn bools() -> BoxedStrategy<String> {
        const SIGNS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
        let numbers = prop_oneof![ints(), doubles()].boxed();
        let leaf = prop_oneof![
            2 => joined(SIGNS, numbers.clone()),
            1 => joined(SIGNS, texts()),
            1 => (prop::sample::select(&["startsWith", "endsWith", "contains"][..]), texts(), texts()).prop_map(|(f, a, b)| format!("{a}.{f}({b})")),
            1 => one_of(&["request.stream", "\"x-tier\" in headers", "\"x-none\" in headers", "request.model.matches(\"^g.t\")", "key.tags.exists(t, t == request.model)", "key.tags.all(t, 6 / request.images > size(t))", "key.tags.exists(t, 6 / (size(t) - 2) > 1)", "key.tags.exists_one(t, size(t) > request.tools)", "key.tags.filter(t, t != \"\") == [\"eu\"]", "key.tags.map(t, t.startsWith(\"e\"), t + \"!\") != key.tags + [\"eu\"]", "request.model in key.tags.map(t, request.stream ? t : string(size(t)))", "request.tools in key.tags.map(t, size(t))", "\"gpt\" in [request.model, \"x\" + key.team]"]),
            1 => texts().prop_map(|of| format!("{of} in key.tags")),
            1 => (ints(), ints(), ints()).prop_map(|(a, b, c)| format!("{a} in [{b}, {c}]")),
        ];
        leaf.prop_recursive(3, 12, 2, |inner| {
            prop_oneof![
                2 => joined(&["&&", "||"], inner.clone().boxed()),
                1 => inner.clone().prop_map(|of| format!("!({of})")),
                1 => (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            ]
        })
        .boxed()
    }

    prop_compose! {
        fn facts()(
            tokens in prop_oneof![0..10_u64, Just(9000), Just(u64::from(u32::MAX))],
            (complexity, ttft_p95, burn) in (0.0..=1.0, 0.0..3.0, 0.0..1e9),
            (stream, tools, images) in (any::<bool>(), 0..3_u64, 0..3_u64),
            model in prop::sample::select(vec!["gpt-4o", "gpt", "", "eu", "ünï"]),
            tier in prop::sample::select(vec!["gold", "", "4o", "7", "-1.5", "1e3"]),
            tags in prop::collection::vec(prop::sample::select(vec!["eu", "gpt", "", "a long one"]), 0..3),
        ) -> FixedFacts {
            FixedFacts {
                tokens, complexity, ttft_p95, burn, stream, tools, images,
                model: model.to_owned(),
                headers: vec![("x-tier".to_owned(), tier.to_owned())],
                key_tags: tags.into_iter().map(Into::into).collect(),
                queue: tools,
                ..super::facts()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

        /// An accepted condition has the same value in both evaluations; a rejected one has a mistake within its text.
        #[test]
        fn both_ways_of_evaluation_agree(text in bools(), facts in prop::collection::vec(facts(), 4)) {
            match Condition::compile(&text, &names()) {
                Ok(condition) => for facts in facts {
                    prop_assert_eq!(evaluated(&condition, &facts), interpreted(&text, &facts), "{} {:?}", text, facts);
                },
                Err(mistakes) => {
                    prop_assert!(!mistakes.is_empty());
                    prop_assert!(mistakes.iter().all(|it| text.get(it.range.clone()).is_some() && it.help.is_some()));
                }
            }
        }

        #[test]
        fn near_conditions_never_panic(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "prompt", ".", "tokens", ">", "8000", "(", ")", "[", "]", "\"", "'x'", "&&", "||", "!", "-", "in", " ", "?", ":", ",",
                    "headers", "key.tags", ".exists(t, ", "time.in(", "1.5", "e", "é", "\\", "\n", "r", "=", "%", "pool", "small", "true",
                ]),
                0..30,
            ),
        ) {
            fuzz_condition(parts.concat().as_bytes());
        }
    }
}

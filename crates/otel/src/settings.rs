//! Settings of the export: what the policy says, else the `OTEL_*` variables of the specification, else their defaults.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use signalbox_policy::Otel;
use signalbox_protocol::Propagator;

use super::sampler::Sampler;

/// The default interval of metrics.
const INTERVAL: Duration = Duration::from_mins(1);
/// The default time limit of one request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most spans that wait to be sent, most of one request, and the longest wait for more, by default.
const QUEUE: usize = 32_768;
const BATCH: usize = 2_048;
const DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Settings {
    /// Attributes of the resource, the service's name and instance among them.
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    pub(super) propagators: Vec<Propagator>,
    /// `None` where nothing of the kind is exported.
    pub(super) traces: Option<Destination>,
    pub(super) metrics: Option<Destination>,
    pub(super) interval: Duration,
    pub(super) queue: usize,
    pub(super) batch: usize,
    pub(super) delay: Duration,
    /// Settings of the environment that cannot be followed, for the log.
    pub(super) remarks: Vec<String>,
}

/// Destination of traces or metrics.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
}

/// Reads variables of the environment.
struct Environment<F> {
    lookup: F,
    remarks: Vec<String>,
}

impl Settings {
    /// Settings of the process `instance`, with variables from `lookup`; `None` where the environment turns the export off.
    pub(super) fn of(spec: &Otel, instance: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut env = Environment { lookup, remarks: Vec::new() };
        if env.text("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let service = spec.service.as_ref().map(ToString::to_string).or_else(|| env.text("OTEL_SERVICE_NAME"));
        let mut resource = vec![("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
        let mut set = |name: &str, value: Option<String>, usual: &str| {
            let known = resource.iter().position(|(other, _)| other == name);
            match (value, known) {
                (Some(value), Some(at)) => resource[at].1 = value,
                (None, Some(_)) => {}
                (value, None) => resource.push((name.to_owned(), value.unwrap_or_else(|| usual.to_owned()))),
            }
        };
        for (name, value) in env.pairs("OTEL_RESOURCE_ATTRIBUTES") {
            set(&name, Some(value), "");
        }
        set("service.name", service, "signalbox");
        set("service.instance.id", spec.instance.as_ref().map(ToString::to_string), instance);
        let settings = Self {
            sampler: env.sampler(spec.sample),
            propagators: env.propagators(),
            traces: env.destination("TRACES", "traces", spec),
            metrics: env.destination("METRICS", "metrics", spec),
            interval: spec.interval.or_else(|| env.millis("OTEL_METRIC_EXPORT_INTERVAL")).unwrap_or(INTERVAL),
            queue: env.number("OTEL_BSP_MAX_QUEUE_SIZE").unwrap_or(QUEUE),
            batch: env.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").unwrap_or(BATCH),
            delay: env.millis("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(DELAY),
            resource,
            remarks: env.remarks,
        };
        Some(settings)
    }
}

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    /// A variable that is set to more than blanks.
    fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn number(&mut self, name: &str) -> Option<usize> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| *number > 0);
        if number.is_none() {
            self.remarks.push(format!("{name}={text} is no positive number"));
        }
        number
    }

    fn millis(&mut self, name: &str) -> Option<Duration> {
        self.number(name).map(|millis| Duration::from_millis(millis as u64))
    }

    /// Pairs such as `key=value,key=value`, whose values are percent-encoded.
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let text = self.text(name).unwrap_or_default();
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (decoded(name.trim()), decoded(value.trim()))).collect()
    }

    fn sampler(&mut self, share: Option<f64>) -> Sampler {
        if let Some(share) = share {
            return Sampler { share, follows_parent: true };
        }
        let Some(name) = self.text("OTEL_TRACES_SAMPLER") else { return Sampler::default() };
        let (kind, follows_parent) = name.strip_prefix("parentbased_").map_or((&*name, false), |kind| (kind, true));
        let share = match kind {
            "always_on" => Some(1.0),
            "always_off" => Some(0.0),
            "traceidratio" => {
                let given = self.text("OTEL_TRACES_SAMPLER_ARG");
                let share = given.as_ref().and_then(|text| text.parse().ok());
                let share = share.filter(|share| (0.0..=1.0).contains(share));
                if share.is_none() {
                    let given = given.unwrap_or_default();
                    self.remarks.push(format!("OTEL_TRACES_SAMPLER_ARG={given} is no number from 0 to 1: it is 1"));
                }
                Some(share.unwrap_or(1.0))
            }
            _ => None,
        };
        if share.is_none() {
            self.remarks.push(format!("OTEL_TRACES_SAMPLER={name} is not known: it is parentbased_always_on"));
        }
        share.map_or_else(Sampler::default, |share| Sampler { share, follows_parent })
    }

    fn propagators(&mut self) -> Vec<Propagator> {
        let Some(names) = self.text("OTEL_PROPAGATORS") else { return vec![Propagator::TraceContext] };
        let mut all = Vec::new();
        for name in names.split(',').map(str::trim) {
            let propagator = match name {
                "tracecontext" => Propagator::TraceContext,
                "b3" => Propagator::B3,
                "b3multi" => Propagator::B3Multi,
                // Baggage passes through with the other headers.
                "none" | "baggage" | "" => continue,
                other => {
                    self.remarks.push(format!("OTEL_PROPAGATORS: {other} is not known"));
                    continue;
                }
            };
            if !all.contains(&propagator) {
                all.push(propagator);
            }
        }
        all
    }

    /// The destination of one signal; `None` where it is not exported.
    fn destination(&mut self, signal: &str, path: &str, spec: &Otel) -> Option<Destination> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.text(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(other) => self.remarks.push(format!("{exporter}={other} is not known: it is otlp")),
        }
        let own = |what: &str| format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
        let of_all = |what: &str| format!("OTEL_EXPORTER_OTLP_{what}");
        let below = |base: &str| format!("{}/v1/{path}", base.trim_end_matches('/'));
        let url = match &spec.endpoint {
            Some(endpoint) => below(endpoint),
            None => self.text(&own("ENDPOINT")).unwrap_or_else(|| {
                below(&self.text(&of_all("ENDPOINT")).unwrap_or_else(|| "http://localhost:4318".to_owned()))
            }),
        };
        let protocol = self.text(&own("PROTOCOL")).or_else(|| self.text(&of_all("PROTOCOL")));
        if let Some(other) = protocol.filter(|protocol| protocol != "http/protobuf") {
            self.remarks.push(format!("OTLP over {other} is not supported: it is http/protobuf, usually at port 4318"));
        }
        let timeout = self.millis(&own("TIMEOUT")).or_else(|| self.millis(&of_all("TIMEOUT"))).unwrap_or(TIMEOUT);
        let mut headers = HeaderMap::new();
        let mut put = |name: &str, value: &str| {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        };
        for (name, value) in [of_all("HEADERS"), own("HEADERS")].iter().flat_map(|name| self.pairs(name)) {
            put(&name, &value);
        }
        for (name, value) in &spec.headers {
            put(name, value.expose());
        }
        Some(Destination { url, headers, timeout })
    }
}

/// Decodes `%xx`; what is no such escape stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%');
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Otel {
        Otel {
            endpoint: None,
            headers: Vec::new(),
            sample: None,
            service: None,
            instance: None,
            interval: None,
            content: None,
        }
    }

    fn read(spec: &Otel, variables: &[(&str, &str)]) -> Option<Settings> {
        let lookup =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::of(spec, "id-1", lookup)
    }

    fn resource<'a>(settings: &'a Settings, name: &str) -> &'a str {
        &settings.resource.iter().find(|(known, _)| known == name).unwrap().1
    }

    #[test]
    fn the_policy_comes_before_the_environment_and_that_before_the_defaults() {
        let usual = read(&spec(), &[]).unwrap();
        assert_eq!(resource(&usual, "service.name"), "signalbox");
        assert_eq!(resource(&usual, "service.instance.id"), "id-1");
        assert_eq!(usual.traces.as_ref().unwrap().url, "http://localhost:4318/v1/traces");
        assert_eq!((usual.sampler, &*usual.propagators), (Sampler::default(), &[Propagator::TraceContext][..]));
        assert!(usual.remarks.is_empty());
        let variables = [
            ("OTEL_SERVICE_NAME", "edge"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other, service.instance.id=a%2Cb,env=test"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/base/"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics:4318/here"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-a=1,x-b=two%20words"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-a=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_PROPAGATORS", "b3multi, tracecontext,baggage"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
        ];
        let given = read(&spec(), &variables).unwrap();
        assert_eq!((resource(&given, "service.name"), resource(&given, "service.instance.id")), ("edge", "a,b"));
        assert_eq!(resource(&given, "env"), "test");
        let (traces, metrics) = (given.traces.unwrap(), given.metrics.unwrap());
        assert_eq!((&*traces.url, &*metrics.url), ("http://all:4318/base/v1/traces", "http://metrics:4318/here"));
        assert_eq!((traces.headers["x-a"].as_bytes(), metrics.headers["x-a"].as_bytes()), (&b"2"[..], &b"1"[..]));
        assert_eq!((traces.headers["x-b"].to_str().unwrap(), traces.timeout.as_millis()), ("two words", 1500));
        assert_eq!(given.sampler, Sampler { share: 0.25, follows_parent: true });
        assert_eq!(given.propagators, [Propagator::B3Multi, Propagator::TraceContext]);
        assert_eq!((given.interval, given.remarks.len()), (Duration::from_secs(5), 0));
        let written = Otel {
            endpoint: Some("http://policy:4318".to_owned()),
            sample: Some(0.5),
            service: Some("box".into()),
            instance: Some("pod-1".into()),
            interval: Some(Duration::from_secs(2)),
            ..spec()
        };
        let given = read(&written, &variables).unwrap();
        assert_eq!((resource(&given, "service.name"), resource(&given, "service.instance.id")), ("box", "pod-1"));
        assert_eq!(given.metrics.unwrap().url, "http://policy:4318/v1/metrics");
        assert_eq!((given.sampler.share, given.interval.as_secs()), (0.5, 2));
    }

    #[test]
    fn the_environment_turns_signals_off_and_what_it_cannot_have_is_said() {
        assert!(read(&spec(), &[("OTEL_SDK_DISABLED", "TRUE")]).is_none());
        assert!(read(&spec(), &[("OTEL_SDK_DISABLED", "false")]).is_some());
        let off = read(&spec(), &[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_PROPAGATORS", "none")]).unwrap();
        assert!(off.traces.is_none() && off.metrics.is_some() && off.propagators.is_empty());
        let odd = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_PROPAGATORS", "xray"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ];
        let odd = read(&spec(), &odd).unwrap();
        assert_eq!((odd.sampler, odd.queue, odd.remarks.len()), (Sampler::default(), QUEUE, 5), "{:?}", odd.remarks);
    }

    #[test]
    fn percent_escapes_are_decoded_and_others_stay() {
        assert_eq!(decoded("a%2Cb%3d%C3%BC 100% %zz%"), "a,b=ü 100% %zz%");
    }
}

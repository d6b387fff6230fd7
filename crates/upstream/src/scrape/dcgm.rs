//! GPU gauges from NVIDIA's DCGM exporter: read every few seconds, without consequence if it is missing or slow.

use std::{collections::BTreeMap, time::Duration};

use crate::{Client, EngineAccess};
use signalbox_engines::{Sample, samples};
use signalbox_fleet::Engine;
use signalbox_types::{Clock, GpuSignals};

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(5);
/// Longest pause after a failed reading.
const MAX_RETRY_PAUSE: Duration = Duration::from_mins(1);
/// Timeout of a reading.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest page, in bytes.
const MAX_PAGE_BYTES: usize = 8 << 20;
/// Most GPUs of one machine.
const MAX_GPUS: usize = 1024;
/// Values above this, in MiB, are blanks: DCGM writes numbers near 2^63 for unknown values.
const BLANK: f64 = 1e12;

/// Reads the exporter at `url` for `engine` until the task is aborted.
pub(super) async fn poll(engine: std::sync::Arc<Engine>, url: String, client: Client, clock: Clock) {
    let (mut pause, mut trouble) = (EVERY / 2, String::new());
    loop {
        let page = client
            .fetch(&url, &EngineAccess::default(), TIMEOUT, MAX_PAGE_BYTES)
            .await
            .map_err(|error| error.to_string());
        let gpus = page.and_then(|page| {
            read_gpu_signals(&String::from_utf8_lossy(&page.body))
                .ok_or_else(|| "its page has no GPU metrics".to_owned())
        });
        let why = gpus.as_ref().err().cloned().unwrap_or_default();
        pause = match gpus {
            Ok(gpus) => {
                engine.record_gpus(gpus, clock.now());
                EVERY
            }
            Err(_) => (pause * 2).min(MAX_RETRY_PAUSE),
        };
        // Logged once per change.
        if why != trouble {
            match &*why {
                "" => tracing::info!(engine = %engine.name, url, "dcgm: GPU metrics are readable"),
                why => {
                    tracing::warn!(engine = %engine.name, url, why, "dcgm: GPU metrics cannot be read, retrying: check 'dcgm' of the engine in the policy");
                }
            }
            trouble = why;
        }
        tokio::time::sleep(pause.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// One GPU, or one slice of it.
#[derive(Default)]
struct Gpu {
    /// Utilisation in percent.
    utilisation: Option<f64>,
    /// Utilisation by the profiler, as a share.
    active: Option<f64>,
    used: Option<f64>,
    free: Option<f64>,
    reserved: Option<f64>,
    total: Option<f64>,
}

impl Gpu {
    fn busy(&self) -> Option<f64> {
        self.utilisation.filter(|percent| *percent <= 100.0).map(|percent| percent / 100.0).or(self.active)
    }

    /// Share of its memory in use. Memory reserved by the driver is part of the total.
    fn memory(&self) -> Option<f64> {
        let used = self.used?;
        let total = self.total.or_else(|| Some(used + self.free? + self.reserved.unwrap_or(0.0)))?;
        (total > 0.0).then(|| (used / total).min(1.0))
    }
}

/// Reads an exporter's text. `None` without any GPU.
pub(crate) fn read_gpu_signals(text: &str) -> Option<GpuSignals> {
    let mut gpus: BTreeMap<[String; 3], Gpu> = BTreeMap::new();
    for Sample { name, labels, value } in samples(text) {
        let Some(field) = field(name) else { continue };
        if !(value.is_finite() && (0.0..BLANK).contains(&value)) {
            continue;
        }
        // A slice of a GPU (MIG) has its GPU's labels and one more.
        let which = ["gpu", "UUID", "GPU_I_ID"].map(|label| labels.get(label).unwrap_or_default().into_owned());
        if gpus.len() < MAX_GPUS || gpus.contains_key(&which) {
            *field(gpus.entry(which).or_default()) = Some(value);
        }
    }
    let count = u32::try_from(gpus.len()).ok().filter(|count| *count > 0)?;
    let busy: Vec<f64> = gpus.values().filter_map(Gpu::busy).map(|share| share.min(1.0)).collect();
    let utilisation = (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64);
    Some(GpuSignals { count, utilisation, memory: gpus.values().filter_map(Gpu::memory).reduce(f64::max) })
}

/// Field of a [`Gpu`] for the metric `name`.
fn field(name: &str) -> Option<fn(&mut Gpu) -> &mut Option<f64>> {
    Some(match name.strip_prefix("DCGM_FI_")? {
        "DEV_GPU_UTIL" => |gpu| &mut gpu.utilisation,
        "PROF_GR_ENGINE_ACTIVE" => |gpu| &mut gpu.active,
        "DEV_FB_USED" => |gpu| &mut gpu.used,
        "DEV_FB_FREE" => |gpu| &mut gpu.free,
        "DEV_FB_RESERVED" => |gpu| &mut gpu.reserved,
        "DEV_FB_TOTAL" => |gpu| &mut gpu.total,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="H100",Hostname="g1"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",device="nvidia1",modelName="H100",Hostname="g1"} 30
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",device="nvidia0",modelName="H100",Hostname="g1"} 60000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",device="nvidia0",modelName="H100",Hostname="g1"} 20000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",device="nvidia1",modelName="H100",Hostname="g1"} 8000
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",device="nvidia1",modelName="H100",Hostname="g1"} 71000
DCGM_FI_DEV_FB_RESERVED{gpu="1",UUID="GPU-b",device="nvidia1",modelName="H100",Hostname="g1"} 1000
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 71
"#;

    #[test]
    fn utilisation_is_a_mean_and_memory_a_maximum() {
        let gpus = read_gpu_signals(TWO).unwrap();
        assert_eq!((gpus.count, gpus.memory), (2, Some(0.75)));
        assert!((gpus.utilisation.unwrap() - 0.6).abs() < 1e-9, "{gpus:?}");
    }

    #[test]
    fn slices_are_read_from_the_profiler() {
        let text = r#"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_ID="2",GPU_I_PROFILE="3g.40gb"} 0.25
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",GPU_I_ID="1"} 10
DCGM_FI_DEV_FB_TOTAL{gpu="0",UUID="GPU-a",GPU_I_ID="1"} 40
"#;
        let gpus = read_gpu_signals(text).unwrap();
        assert_eq!(gpus, GpuSignals { count: 2, utilisation: Some(0.375), memory: Some(0.25) });
    }

    #[test]
    fn blanks_and_other_texts_are_ignored() {
        for text in ["", "up 1", "<html></html>", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 40", "DCGM_FI_DEV_GPU_UTIL NaN"] {
            assert_eq!(read_gpu_signals(text), None, "{text}");
        }
        let blank = "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 9223372036854775794\nDCGM_FI_DEV_FB_FREE{gpu=\"0\"} 20\n";
        assert_eq!(read_gpu_signals(blank), Some(GpuSignals { count: 1, utilisation: None, memory: None }));
    }
}

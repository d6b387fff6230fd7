//! Task that feeds the history: an interval whenever one is complete, and backends that change.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{
    Control,
    history::{Event, FINE, Gatherer, Kind, Seen},
};

/// Time after the end of an interval at which it is read, so that samples taken just before its end are there.
const SETTLED: Duration = Duration::from_millis(200);
/// Short intervals between two writes to disk.
const WRITE_EVERY: u64 = 60;
/// Time between two looks at the backends.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the tasks; they end with the process.
pub(super) fn start(control: &Arc<Control>) {
    let words = format!("the gateway started, version {}", env!("CARGO_PKG_VERSION"));
    control.history.note(Event::new(Kind::Started, words));
    tokio::spawn(watch(control.clone()));
    tokio::spawn(record(control.clone()));
}

async fn record(control: Arc<Control>) {
    let (clock, width) = (control.app.parts.clock, FINE.as_nanos() as u64);
    let mut last = Gatherer::new(&control.app);
    for round in 1_u64.. {
        let now = clock.now().nanos();
        sleep(Duration::from_nanos(width - now % width) + SETTLED).await;
        let control = control.clone();
        // Visits every backend, and writes a file.
        let gathered = tokio::task::spawn_blocking(move || {
            control.history.gather(&control.app, &mut last);
            if round % WRITE_EVERY == 0 {
                control.history.save();
            }
            last
        });
        match gathered.await {
            Ok(now) => last = now,
            // A panic, which was logged, or the end of the runtime.
            Err(_) => return,
        }
    }
}

async fn watch(control: Arc<Control>) {
    let (mut ticks, mut seen) = (interval(LOOK), Seen::default());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (serving, now) = (control.app.live.load(), control.app.parts.clock.now());
        for event in seen.look(&serving.snapshot, now) {
            control.history.note(event);
        }
    }
}

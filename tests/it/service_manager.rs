//! The service manager's protocol (`sd_notify`): ready, reloading, alive, stopping.

use tokio::net::UnixDatagram;

use crate::support::{
    client::get,
    gateway::Start,
    mock::{Mock, polite},
    within,
};

/// Receives the next message that is not of the watchdog.
async fn next(socket: &UnixDatagram) -> String {
    loop {
        let message = receive(socket).await;
        if message != "WATCHDOG=1\n" {
            return message;
        }
    }
}

async fn receive(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let length = within("a message", socket.recv(&mut bytes)).await.expect("a message");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[tokio::test]
async fn a_service_manager_is_notified_of_start_reload_life_and_stop() {
    let mock = Mock::start(polite).await;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let policy = format!("pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n", mock.url());
    let start = Start::with(&policy).env("NOTIFY_SOCKET", path.to_str().expect("a path in UTF-8"));
    let mut gateway = start.env("WATCHDOG_USEC", "300000").start().await;
    let ready = next(&socket).await;
    assert_eq!(ready, format!("READY=1\nSTATUS=serving on {}\n", gateway.listen()));
    assert_eq!(get(&gateway.at("/readyz")).await.status, 200);
    for _ in 0..2 {
        assert_eq!(receive(&socket).await, "WATCHDOG=1\n");
    }

    gateway.sighup();
    let reloading = next(&socket).await;
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a reload with its time");
    assert!(time.trim_end().parse::<u64>().is_ok_and(|time| time > 0), "{reloading}");
    assert!(next(&socket).await.starts_with("READY=1\nSTATUS=serving policy "));
    gateway.rewrite("pools: [");
    assert!(next(&socket).await.starts_with("RELOADING=1\n"));
    assert!(next(&socket).await.starts_with("READY=1\nSTATUS=the last reload failed"));

    gateway.sigterm();
    // lame_duck 0 s, drain 30 s, and ten more.
    assert_eq!(next(&socket).await, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=40000000\n");
    assert_eq!(gateway.wait_exit().await.code(), Some(0), "{}", gateway.log());
}

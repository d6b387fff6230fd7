//! A rolling update: gateways behind a balancer are replaced one by one under load.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    time::interval,
};

use crate::{
    load::{Load, pool},
    support::{
        client::http,
        gateway::Gateway,
        mock::{Mock, Plan, chat_events},
        until,
    },
};

/// A balancer of TCP connections, such as a Kubernetes Service or an NLB: sends new connections to targets whose
/// `/readyz` answers 200, and leaves open ones alone.
#[derive(Clone, Default)]
struct Balancer(Arc<Mutex<Vec<Target>>>);

struct Target {
    address: SocketAddr,
    is_ready: bool,
    connections: usize,
}

impl Balancer {
    async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (balancer, address) = (Self::default(), listener.local_addr().expect("its address"));
        tokio::spawn(balancer.clone().probe());
        let accepting = balancer.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().relay(client));
            }
        });
        (balancer, address)
    }

    fn add(&self, gateway: &Gateway) {
        let target = Target { address: gateway.listen(), is_ready: false, connections: 0 };
        self.0.lock().push(target);
    }

    /// Asks every target for its readiness, as often as it takes.
    async fn probe(self) {
        let (client, mut tick) = (http(), interval(Duration::from_millis(50)));
        loop {
            tick.tick().await;
            let addresses: Vec<_> = self.0.lock().iter().map(|target| target.address).collect();
            for address in addresses {
                let answer = client.get(format!("http://{address}/readyz")).send().await;
                let is_ready = answer.is_ok_and(|answer| answer.status() == 200);
                self.0.lock().iter_mut().filter(|it| it.address == address).for_each(|it| it.is_ready = is_ready);
            }
        }
    }

    async fn relay(self, mut client: TcpStream) {
        let chosen = {
            let mut targets = self.0.lock();
            let chosen = targets.iter_mut().filter(|target| target.is_ready).min_by_key(|target| target.connections);
            chosen.map(|target| {
                target.connections += 1;
                target.address
            })
        };
        let Some(address) = chosen else { return };
        if let Ok(mut gateway) = TcpStream::connect(address).await {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
        }
    }

    async fn wait_ready(&self, gateway: &Gateway) {
        let is_ready = |target: &Target| target.address == gateway.listen() && target.is_ready;
        until("a gateway to be ready", async || self.0.lock().iter().any(is_ready)).await;
    }

    async fn wait_used(&self, gateway: &Gateway) {
        let is_used = |target: &Target| target.address == gateway.listen() && target.connections > 0;
        until("the balancer to use a gateway", async || self.0.lock().iter().any(is_used)).await;
    }
}

#[tokio::test]
async fn gateways_are_replaced_one_by_one_without_a_failed_request() {
    let plan = |_: &_| {
        let events = chat_events(["a", "b", "c"]);
        let (first, rest) = events.split_at(2);
        Plan::stream().events(first).pause(Duration::from_millis(20)).events(rest).done()
    };
    let engines = [Mock::start(plan).await, Mock::start(plan).await];
    let urls = engines.each_ref().map(Mock::url);
    // A second is twenty times the balancer's interval.
    let policy = format!("{}limits: {{ lame_duck: 1s }}\n", pool(urls.iter().map(|url| &**url)));
    let (mut one, mut two) = tokio::join!(Gateway::start(&policy), Gateway::start(&policy));
    let (balancer, address) = Balancer::start().await;
    balancer.add(&one);
    balancer.add(&two);
    balancer.wait_ready(&one).await;
    balancer.wait_ready(&two).await;
    let load = Load::start(24, &[address], "");
    load.wait(100).await;
    for old in [&mut one, &mut two] {
        let new = Gateway::start(&policy).await;
        balancer.add(&new);
        balancer.wait_ready(&new).await;
        old.sigterm();
        assert_eq!(old.wait_exit().await.code(), Some(0), "{}", old.log());
        balancer.wait_used(&new).await;
        load.wait(100).await;
        *old = new;
    }
    let (complete, failures) = load.end().await;
    assert!(failures.is_empty(), "{complete} complete, {} failed: {failures:?}", failures.len());
    assert!(complete >= 300, "{complete}");
}

//! What pods get when they send, or ask for, all that they can at the same time.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netqos_testkit::classes::World;
use netqos_traffic::{Flow, TcpTest};

/// Of each pod, with a server outside and by so many connections, in Mbit/s of payload.
pub fn loads(world: &World, flow: Flow, ways: &[(&str, SocketAddr, u16)]) -> Vec<f64> {
    thread::scope(|scope| {
        let one = |&(pod, server, streams): &(&str, SocketAddr, u16)| {
            let pod = &world.pods[pod];
            scope.spawn(move || {
                let test = TcpTest {
                    flow,
                    streams,
                    omit: Duration::from_millis(1000),
                    duration: Duration::from_secs(4),
                    congestion_control: Some("cubic".to_owned()),
                    ..TcpTest::new(server)
                };
                let report = pod.inside(|| test.run(|_| ()).unwrap()).unwrap();
                report.goodput.rate.bits_per_second() as f64 / 1e6
            })
        };
        let running: Vec<_> = ways.iter().map(one).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

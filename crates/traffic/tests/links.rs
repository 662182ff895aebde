//! The meters against their own server, over the loopback interface, IPv4 and IPv6.
// Clippy knows a test by its attribute, and not the functions that tests share.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use netqos_core::BitRate;
use netqos_traffic::{
    Dscp, DscpSeen, Flow, LatencyTest, Quantiles, Server, TcpTest, TrafficError, UdpReport, UdpTest,
};

const LOOPBACKS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

fn server(ip: IpAddr) -> Option<Server> {
    match Server::bind(SocketAddr::new(ip, 0)) {
        Ok(server) => Some(server),
        Err(error) if ip.is_ipv6() => {
            eprintln!("SKIPPED for {ip}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn each_way(mut test: impl FnMut(&Server, Flow)) {
    for server in LOOPBACKS.into_iter().filter_map(server) {
        for flow in [Flow::Upload, Flow::Download] {
            test(&server, flow);
        }
    }
}

/// The machine may be busy: the first of three that is good, or the last.
fn best_of_three<T>(mut run: impl FnMut() -> T, is_good: impl Fn(&T) -> bool) -> T {
    let first = run();
    (0..2).fold(first, |last, _| if is_good(&last) { last } else { run() })
}

fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

#[test]
fn tcp_is_not_limited_by_the_meter() {
    each_way(|server, flow| {
        let test = TcpTest {
            flow,
            streams: 2,
            omit: Duration::from_millis(200),
            duration: Duration::from_millis(600),
            ..TcpTest::new(server.local_addr())
        };
        let mut seen = Vec::new();
        let best = best_of_three(
            || test.run(|sample| seen.push(sample)).unwrap(),
            |report| report.rate() > mbit(1_000),
        );
        assert!(best.rate() > mbit(1_000), "{flow}: {best}");
        assert!(
            (5..=9).contains(&best.goodput.samples.len()),
            "{:?}",
            best.goodput
        );
        assert!(!seen.is_empty());
        assert_eq!(best.streams, 2);
    });
}

#[test]
fn congestion_control_is_chosen_by_name_and_refused_by_name() {
    each_way(|server, flow| {
        let mut test = TcpTest {
            flow,
            omit: Duration::ZERO,
            duration: Duration::from_millis(100),
            congestion_control: Some("reno".to_owned()),
            ..TcpTest::new(server.local_addr())
        };
        let report = test.run(|_| ()).unwrap();
        assert_eq!(report.congestion_control.as_deref(), Some("reno"));

        test.congestion_control = Some("nosuch".to_owned());
        let error = test.run(|_| ()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(r#"congestion control "nosuch""#), "{text}");
        assert!(text.contains("tcp_available_congestion_control"), "{text}");
    });
}

fn udp(server: &Server, flow: Flow, rate: BitRate) -> UdpReport {
    let test = UdpTest {
        flow,
        omit: Duration::from_millis(100),
        duration: Duration::from_millis(500),
        dscp: "EF".parse().unwrap(),
        ..UdpTest::new(server.local_addr(), rate)
    };
    test.run(|_| ()).unwrap()
}

#[test]
fn udp_holds_its_rate_and_sees_the_mark() {
    each_way(|server, flow| {
        for rate in [mbit(20), mbit(200)] {
            let close = |report: &UdpReport| {
                let got = report.goodput.rate.bits_per_second() as f64;
                (0.9..1.1).contains(&(got / rate.bits_per_second() as f64))
            };
            let best = best_of_three(|| udp(server, flow, rate), close);
            assert!(close(&best), "{flow} at {rate}: {best}");
            assert_eq!(best.sent, best.received + best.lost);
            assert!(best.loss() < 0.1, "{best}");
            let seen = DscpSeen {
                dscp: Dscp::try_new(46).unwrap(),
                datagrams: best.received,
            };
            assert_eq!(best.dscp_seen, [seen]);
            let delay = best.delay.unwrap();
            assert!(delay.min < Duration::from_millis(50), "{delay}");
            assert!(delay.count <= best.received);
        }
    });
}

#[test]
fn the_mark_of_ipv4_is_seen_on_a_socket_of_ipv6() {
    let Some(server) = server(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) else {
        return;
    };
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), server.local_addr().port());
    for flow in [Flow::Upload, Flow::Download] {
        let test = UdpTest {
            flow,
            omit: Duration::ZERO,
            duration: Duration::from_millis(200),
            dscp: "AF41".parse().unwrap(),
            ..UdpTest::new(address, mbit(5))
        };
        let report = test.run(|_| ()).unwrap();
        let marks: Vec<u8> = report.dscp_seen.iter().map(|s| s.dscp.value()).collect();
        assert_eq!(marks, [34], "{flow}");
    }
}

#[test]
fn every_request_is_answered() {
    for server in LOOPBACKS.into_iter().filter_map(server) {
        let test = LatencyTest {
            interval: Duration::from_millis(2),
            duration: Duration::from_millis(200),
            ..LatencyTest::new(server.local_addr())
        };
        let mut echoes = 0;
        let report = test.run(|_| echoes += 1).unwrap();
        assert_eq!((report.sent, report.lost), (100, 0), "{report}");
        assert_eq!(report.received, echoes);
        let Some(Quantiles { count, p50, .. }) = report.round_trip else {
            panic!("{report}");
        };
        assert_eq!(count, 100);
        assert!(p50 < Duration::from_millis(20), "{p50:?}");
    }
}

#[test]
fn who_does_not_answer_is_lost() {
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let test = LatencyTest {
        interval: Duration::from_millis(10),
        duration: Duration::from_millis(50),
        timeout: Duration::from_millis(100),
        ..LatencyTest::new(silent.local_addr().unwrap())
    };
    let report = test.run(|_| ()).unwrap();
    assert_eq!((report.sent, report.received, report.lost), (5, 0, 5));
    assert_eq!(report.round_trip, None);
    assert!(report.to_string().contains("no response"), "{report}");
}

#[test]
fn what_makes_no_sense_is_said() {
    let nobody = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
    let error = TcpTest::new(nobody).run(|_| ()).unwrap_err();
    assert!(matches!(error, TrafficError::Connect { .. }));
    assert!(
        error.to_string().contains("netqos traffic serve"),
        "{error}"
    );

    for (error, words) in [
        (
            TcpTest {
                streams: 0,
                ..TcpTest::new(nobody)
            }
            .run(|_| ())
            .unwrap_err(),
            "0 streams",
        ),
        (
            UdpTest {
                size: 31,
                ..UdpTest::new(nobody, mbit(1))
            }
            .run(|_| ())
            .unwrap_err(),
            "32 to 65507",
        ),
        (
            UdpTest::new(nobody, mbit(0)).run(|_| ()).unwrap_err(),
            "no rate",
        ),
    ] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_server_that_is_dropped_is_gone() {
    let first = server(LOOPBACKS[0]).unwrap();
    let address = first.local_addr();
    drop(first);
    let again = Server::bind(address).unwrap();
    assert_eq!(again.local_addr(), address);
    let error = Server::bind(address).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn a_stranger_does_no_harm() {
    use std::io::Write;
    let server = server(LOOPBACKS[0]).unwrap();
    for words in [
        "GET / HTTP/1.1\r\n\r\n",
        "{}\n",
        "{\"message\":\"stream\",\"session\":1}\n",
    ] {
        let mut stream = std::net::TcpStream::connect(server.local_addr()).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
    }
    let udp = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.send_to(&[0; 100], server.local_addr()).unwrap();
    let test = LatencyTest {
        duration: Duration::from_millis(20),
        ..LatencyTest::new(server.local_addr())
    };
    assert_eq!(test.run(|_| ()).unwrap().lost, 0);
}

//! The meters against their own server, over the loopback interface, IPv4 and IPv6.
// Clippy knows a test by its attribute, and not the functions that tests share.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use netqos_core::BitRate;
use netqos_traffic::{
    Dscp, DscpSeen, Flow, Goodput, LatencyTest, Quantiles, Server, TcpTest, TrafficError,
    UdpReport, UdpTest,
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

/// Runs a test beside a TCP connection without a meter, and returns what that carried meanwhile, in bit/s.
fn beside_plain_tcp<T>(ip: IpAddr, test: impl FnOnce() -> T) -> (T, f64) {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let end = receiver.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || while sender.write_all(&[0; 1 << 18]).is_ok() {});
        let received = scope.spawn(move || {
            let mut chunk = vec![0; 1 << 18];
            let reads = std::iter::from_fn(|| receiver.read(&mut chunk).ok());
            reads.take_while(|read| *read > 0).sum::<usize>()
        });
        let (began, result) = (Instant::now(), test());
        let seconds = began.elapsed().as_secs_f64();
        end.shutdown(Shutdown::Both).unwrap();
        (result, received.join().unwrap() as f64 * 8.0 / seconds)
    })
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
        let (report, plain) = beside_plain_tcp(server.local_addr().ip(), || {
            test.run(|sample| seen.push(sample)).unwrap()
        });
        let rate = report.rate().bits_per_second() as f64;
        assert!(rate > plain / 2.0, "{flow}: {report} beside {plain} bit/s");
        // A sample that is late takes the place of the next.
        assert!((1..=9).contains(&seen.len()), "{seen:?}");
        assert_adds_up(&report.goodput, test.omit, test.duration);
        assert_eq!(report.goodput.samples, seen);
        assert_eq!(report.streams, 2);
    });
}

/// Asserts that goodput is what the samples after the warm-up hold.
fn assert_adds_up(goodput: &Goodput, omit: Duration, duration: Duration) {
    let end = goodput.samples.last().unwrap().at;
    let begin = end - goodput.elapsed;
    assert!(end >= omit + duration && begin >= omit, "{goodput:?}");
    let counted = goodput.samples.iter().filter(|it| it.at > begin);
    let bytes: u64 = counted.map(|it| it.received.bytes()).sum();
    assert_eq!(bytes, goodput.received.bytes(), "{goodput:?}");
    let by_rate = goodput.rate.bits_per_second() as f64 * goodput.elapsed.as_secs_f64() / 8.0;
    assert!((by_rate - bytes as f64).abs() < 1.0, "{goodput:?}");
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

/// A UDP test sends for so much longer than it measures.
const MARGIN: f64 = 0.2;
/// What a sender catches up, and a receiver may be late by, in seconds.
const LATE: f64 = 0.5;

/// Asserts that all datagrams that were due were sent or counted as held back, and that those that arrived are in the
/// samples, or came after them.
fn assert_holds_rate(test: &UdpTest, report: &UdpReport) {
    let per_second = test.rate.bits_per_second() as f64 / 8.0 / test.size as f64;
    let sends = (test.omit + test.duration).as_secs_f64() + MARGIN;
    let due = (sends * per_second).ceil() as u64;
    let (sent, held_back) = (report.sent, report.held_back);
    assert!(sent <= due && sent + held_back >= due, "{due}: {report:?}");
    // More than that is left even on a busy machine.
    assert!(sent > due / 2, "{due}: {report:?}");
    assert_eq!(sent, report.received + report.lost);

    assert_adds_up(&report.goodput, test.omit, test.duration);
    let samples = &report.goodput.samples;
    let bytes: u64 = samples.iter().map(|it| it.received.bytes()).sum();
    let measured = bytes as f64 / test.size as f64;
    let end = samples.last().unwrap().at.as_secs_f64();
    assert!(measured <= per_second * (end + LATE), "{report:?}");
    let after = report.received as f64 - measured;
    assert!(after <= per_second * (sends - end + LATE), "{report:?}");
}

/// Datagrams of both families that the kernel dropped so far, since a socket had no room for them.
fn dropped() -> u64 {
    let count = |file: &str, name: &str, column: usize| -> u64 {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().rfind(|line| line.starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().nth(column));
        word.map_or(0, |word| word.parse().unwrap())
    };
    count("/proc/net/snmp", "Udp:", 3) + count("/proc/net/snmp6", "Udp6InErrors", 1)
}

#[test]
fn udp_holds_its_rate_and_sees_the_mark() {
    each_way(|server, flow| {
        for rate in [mbit(20), mbit(200)] {
            let test = UdpTest {
                flow,
                omit: Duration::from_millis(100),
                duration: Duration::from_millis(500),
                dscp: "EF".parse().unwrap(),
                ..UdpTest::new(server.local_addr(), rate)
            };
            let before = dropped();
            let report = test.run(|_| ()).unwrap();
            assert_holds_rate(&test, &report);
            let dropped = dropped() - before;
            assert!(report.lost <= dropped, "{dropped}: {report}");
            let seen = DscpSeen {
                dscp: Dscp::try_new(46).unwrap(),
                datagrams: report.received,
            };
            assert_eq!(report.dscp_seen, [seen]);
            let delay = report.delay.unwrap();
            assert!(delay.min < Duration::from_millis(50), "{delay}");
            assert!(delay.count <= report.received);
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
        let Some(Quantiles { count, min, .. }) = report.round_trip else {
            panic!("{report}");
        };
        assert_eq!(count, 100);
        assert!(min < Duration::from_millis(20), "{min:?}");
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

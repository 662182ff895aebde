//! `netqos traffic`: the meters.

mod values;

use std::fmt::Display;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_traffic::{
    DEFAULT_PORT, Dscp, DscpSeen, Echo, Flow, INTERVAL, LatencyTest, Sample, Server, TcpTest,
    TrafficError, UdpTest,
};
use serde::Serialize;

use crate::output::{self, BAD_INPUT, ENVIRONMENT, FAILED, Format};

/// Which end of a measurement to be.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Waits for tests: sink, source and echo, TCP and UDP on one port.
    Serve(Serve),
    /// Measures the goodput of TCP.
    Tcp(Tcp),
    /// Measures goodput, loss and delay of UDP at a rate.
    Udp(Udp),
    /// Measures request and response at a beat.
    Latency(Latency),
    /// Says which mark datagrams arrive with.
    Dscp(Mark),
}

/// Where to serve.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  netqos traffic serve\n  netqos traffic serve 10.85.0.2:5219")]
pub struct Serve {
    /// Where to listen [default: port 5219 of all addresses].
    #[arg(value_name = "ADDRESS", value_parser = values::listen_address)]
    address: Option<SocketAddr>,
}

/// What all tests have.
#[derive(Debug, clap::Args)]
struct Common {
    /// The server: an address or name, with a port or without.
    #[arg(value_parser = values::server_address)]
    server: SocketAddr,
    /// How long is counted.
    #[arg(short = 't', long, default_value = "5s", value_parser = values::duration)]
    duration: Duration,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Say nothing before the result.
    #[arg(short, long)]
    quiet: bool,
}

/// A TCP test.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  netqos traffic tcp 10.85.0.2
  netqos traffic tcp 10.85.0.2 --download -P 4 -t 10s -o json")]
pub struct Tcp {
    #[command(flatten)]
    common: Common,
    /// From the server to here.
    #[arg(short = 'R', long)]
    download: bool,
    /// How many connections.
    #[arg(short = 'P', long, default_value_t = 1)]
    streams: u16,
    /// The warm-up, which is not counted.
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    omit: Duration,
    /// The sender's congestion control.
    #[arg(short = 'C', long, value_name = "NAME")]
    congestion_control: Option<String>,
}

/// A UDP test.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  netqos traffic udp 10.85.0.2 -b 20M
  netqos traffic udp 10.85.0.2 -b 1G --size 8000 --download")]
pub struct Udp {
    #[command(flatten)]
    common: Common,
    /// How much is sent per second: 20M, 1G.
    #[arg(short = 'b', long, value_parser = values::rate)]
    rate: BitRate,
    /// From the server to here.
    #[arg(short = 'R', long)]
    download: bool,
    /// The payload of a datagram in bytes.
    #[arg(short = 'l', long, default_value_t = 1400)]
    size: usize,
    /// The warm-up, which is not counted.
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    omit: Duration,
    /// How datagrams are marked: EF, AF41, 46.
    #[arg(long, default_value = "0")]
    dscp: Dscp,
}

/// A latency test.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  netqos traffic latency 10.85.0.2 --interval 2ms -t 10s")]
pub struct Latency {
    #[command(flatten)]
    common: Common,
    /// From one request to the next.
    #[arg(short, long, default_value = "10ms", value_parser = values::duration)]
    interval: Duration,
    /// The payload of a request in bytes.
    #[arg(short = 'l', long, default_value_t = 64)]
    size: usize,
    /// A response that takes longer is lost.
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    timeout: Duration,
    /// How requests are marked: EF, AF41, 46.
    #[arg(long, default_value = "0")]
    dscp: Dscp,
}

/// A test of marks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  netqos traffic dscp 10.85.0.2 EF")]
pub struct Mark {
    #[command(flatten)]
    common: Common,
    /// How datagrams are marked: EF, AF41, 46.
    #[arg(default_value = "0")]
    dscp: Dscp,
    /// From the server to here.
    #[arg(short = 'R', long)]
    download: bool,
}

/// Does it.
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Serve(arguments) => serve(arguments),
        Command::Tcp(arguments) => tcp(arguments),
        Command::Udp(arguments) => udp(arguments),
        Command::Latency(arguments) => latency(arguments),
        Command::Dscp(arguments) => dscp(arguments),
    };
    done.unwrap_or_else(|error| failure(&error))
}

fn serve(arguments: &Serve) -> Result<ExitCode, TrafficError> {
    let server = match arguments.address {
        Some(address) => Server::bind(address)?,
        None => serve_all()?,
    };
    eprintln!("serving on {}, TCP and UDP", server.local_addr());
    server.serve_forever();
    Ok(ExitCode::SUCCESS)
}

fn tcp(arguments: &Tcp) -> Result<ExitCode, TrafficError> {
    let test = TcpTest {
        server: arguments.common.server,
        flow: flow(arguments.download),
        streams: arguments.streams,
        omit: arguments.omit,
        duration: arguments.common.duration,
        congestion_control: arguments.congestion_control.clone(),
        interval: INTERVAL,
    };
    let report = test.run(arguments.common.on_sample())?;
    Ok(arguments.common.print(&report))
}

fn udp(arguments: &Udp) -> Result<ExitCode, TrafficError> {
    let test = UdpTest {
        server: arguments.common.server,
        flow: flow(arguments.download),
        rate: arguments.rate,
        size: arguments.size,
        omit: arguments.omit,
        duration: arguments.common.duration,
        dscp: arguments.dscp,
    };
    let report = test.run(arguments.common.on_sample())?;
    Ok(arguments.common.print(&report))
}

fn latency(arguments: &Latency) -> Result<ExitCode, TrafficError> {
    let test = LatencyTest {
        server: arguments.common.server,
        size: arguments.size,
        interval: arguments.interval,
        duration: arguments.common.duration,
        timeout: arguments.timeout,
        dscp: arguments.dscp,
    };
    let report = test.run(arguments.common.on_echo())?;
    let printed = arguments.common.print(&report);
    if report.round_trip.is_some() {
        return Ok(printed);
    }
    eprintln!(
        "netqos: nobody answers at {}: start a meter there with `netqos traffic serve`",
        arguments.common.server
    );
    Ok(ExitCode::from(FAILED))
}

fn dscp(arguments: &Mark) -> Result<ExitCode, TrafficError> {
    let test = UdpTest {
        flow: flow(arguments.download),
        size: 100,
        omit: Duration::ZERO,
        dscp: arguments.dscp,
        duration: arguments.common.duration,
        ..UdpTest::new(
            arguments.common.server,
            BitRate::from_bits_per_second(100_000),
        )
    };
    let report = test.run(arguments.common.on_sample())?;
    if arguments.common.output == Format::Json {
        return Ok(output::json(&report.dscp_seen));
    }
    for DscpSeen { dscp, datagrams } in &report.dscp_seen {
        println!("DSCP {dscp} on {datagrams} datagrams");
    }
    Ok(ExitCode::SUCCESS)
}

impl Common {
    fn print(&self, report: &(impl Serialize + Display)) -> ExitCode {
        match self.output {
            Format::Json => output::json(report),
            Format::Table => {
                println!("{report}");
                ExitCode::SUCCESS
            }
        }
    }

    /// A line a second on standard error.
    fn on_sample(&self) -> impl FnMut(Sample) {
        let mut beat = Beat::new(self.quiet);
        move |sample| beat.at(sample.at, || sample.rate().to_string())
    }

    fn on_echo(&self) -> impl FnMut(Echo) {
        let mut beat = Beat::new(self.quiet);
        move |echo| beat.at(echo.at, || format!("{:.3?}", echo.round_trip))
    }
}

/// Says something once a second.
struct Beat {
    quiet: bool,
    next: Duration,
}

impl Beat {
    const EVERY: Duration = Duration::from_secs(1);

    const fn new(quiet: bool) -> Self {
        Self {
            quiet,
            next: Self::EVERY,
        }
    }

    fn at(&mut self, now: Duration, what: impl FnOnce() -> String) {
        // A sample is a bit early or late.
        if !self.quiet && now + INTERVAL / 2 >= self.next {
            self.next += Self::EVERY;
            eprintln!("{:6.1} s  {}", now.as_secs_f64(), what());
        }
    }
}

/// IPv6 with IPv4 on it, or IPv4 alone where the kernel has no IPv6.
fn serve_all() -> Result<Server, TrafficError> {
    let any = |ip: std::net::IpAddr| SocketAddr::new(ip, DEFAULT_PORT);
    Server::bind(any(std::net::Ipv6Addr::UNSPECIFIED.into())).or_else(|error| {
        let without_ipv6 = Server::bind(any(std::net::Ipv4Addr::UNSPECIFIED.into()));
        without_ipv6.map_err(|_| error)
    })
}

const fn flow(download: bool) -> Flow {
    if download {
        Flow::Download
    } else {
        Flow::Upload
    }
}

fn failure(error: &TrafficError) -> ExitCode {
    let code = match error {
        TrafficError::InvalidTest(_) => BAD_INPUT,
        TrafficError::Bind { .. } | TrafficError::CongestionControl { .. } => ENVIRONMENT,
        _ => FAILED,
    };
    output::failure(code, error)
}

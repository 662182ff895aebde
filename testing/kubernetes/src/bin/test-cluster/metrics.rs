//! A Prometheus server that is configured as docs/install.md says.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::{Daemon, run};
use serde_json::Value;

use crate::context::{Context, NETQOS, eventually};
use crate::install::{deployed, rolled_out};
use crate::limits;

const INSTALL: &str = include_str!("../../../../../docs/install.md");
const ALERTS: &str = include_str!("../../../../../deploy/monitoring/alerts.yaml");
const ADDRESS: &str = "127.0.0.1:9090";
/// The time until everything is discovered and was read twice.
const PATIENCE: Duration = Duration::from_secs(60);

/// The values of a query, and its labels.
fn query(query: &str) -> anyhow::Result<Vec<Value>> {
    let mut promtool = std::process::Command::new("promtool");
    promtool.args(["query", "instant", "-o", "json"]);
    let answer = run(promtool.args([&format!("http://{ADDRESS}"), query]))?;
    Ok(serde_json::from_str(&answer)?)
}

/// Waits until a query has so many values.
fn expect(count: usize, expression: &str) -> anyhow::Result<Vec<Value>> {
    eventually(PATIENCE, || {
        let values = query(expression)?;
        ensure!(
            values.len() == count,
            "{expression}: {} values, expected {count}",
            values.len()
        );
        Ok(values)
    })
}

/// The number of alerts, all of which Prometheus has evaluated; an error if one could not be, or fires.
fn evaluated_alerts() -> anyhow::Result<usize> {
    // HTTP/1.0: the answer ends with the connection, and is not chunked.
    let mut stream = TcpStream::connect(ADDRESS)?;
    stream.write_all(b"GET /api/v1/rules HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let answer: Value = serde_json::from_str(body)?;
    let groups = answer["data"]["groups"].as_array().into_iter().flatten();
    let rules = groups.flat_map(|it| it["rules"].as_array().into_iter().flatten());
    let alerts: Vec<&Value> = rules.filter(|it| it["type"] == "alerting").collect();
    let documented = ALERTS.matches("- alert:").count();
    ensure!(
        alerts.len() == documented,
        "{} alerts, expected {documented}",
        alerts.len()
    );
    for alert in &alerts {
        ensure!(
            alert["health"] == "ok" && alert["state"] != "firing",
            "{alert}"
        );
    }
    Ok(documented)
}

/// The configuration in docs/install.md, with the kubeconfig of the cluster.
fn configuration(kubeconfig: &Path) -> anyhow::Result<String> {
    let blocks = INSTALL.split("```yaml\n").skip(1);
    let mut blocks = blocks.filter_map(|it| it.split("```").next());
    let documented = blocks.find(|it| it.starts_with("scrape_configs:"));
    let documented = documented.context("docs/install.md has no scrape_configs")?;
    let outside = format!("role: endpoints, kubeconfig_file: {}", kubeconfig.display());
    Ok(format!(
        "global: {{scrape_interval: 2s, evaluation_interval: 2s}}\n{}",
        documented.replace("role: endpoints", &outside)
    ))
}

/// Prometheus finds all agents and controllers, knows the rate of a pod, and no alert fires.
pub fn scrape(context: &mut Context) -> anyhow::Result<String> {
    let (limited, _) = limits::pods(context)?;
    let chart = deployed("helm/netqos");
    let monitor = |enabled: bool| -> anyhow::Result<()> {
        let values = format!("monitoring.enabled={enabled},monitoring.operator=false");
        let upgrade = ["upgrade", "netqos", &chart, "-n", NETQOS, "--reuse-values"];
        let upgrade = [&upgrade[..], &["--set", &values]].concat();
        context.kubectl().helm(&upgrade)?;
        rolled_out(context)
    };
    let kubeconfig = context.cluster()?.control_plane.kubeconfig();
    let directory = kubeconfig.with_file_name("prometheus");
    fs::create_dir_all(&directory)?;
    let file = directory.join("prometheus.yaml");
    fs::write(&file, configuration(kubeconfig)?)?;
    fs::write(directory.join("alerts.yaml"), ALERTS)?;
    let arguments = [
        format!("--config.file={}", file.display()),
        format!("--storage.tsdb.path={}", directory.join("data").display()),
        format!("--web.listen-address={ADDRESS}"),
    ];
    let program = context.cluster()?.programs.path("prometheus")?;
    let mut prometheus = Daemon::new("prometheus", program.to_owned(), arguments.to_vec())?;
    prometheus.start()?;
    let read = || -> anyhow::Result<String> {
        let nodes = context.nodes.len();
        expect(nodes, r#"up{job="netqos-agent"} == 1"#)?;
        let controllers = expect(2, r#"up{job="netqos-controller"} == 1"#)?.len();
        // 10 Mbit/s in each direction.
        let rates = format!(
            r#"netqos_pod_rate_limit_bytes_per_second{{pod="{}",rule=""}} == 1.25e6"#,
            limited.name
        );
        expect(2, &rates)?;
        let alerts = eventually(PATIENCE, evaluated_alerts)?;
        Ok(format!(
            "{nodes} agents and {controllers} controllers answer Prometheus, a pod's limits are read, {alerts} alerts are evaluated"
        ))
    };
    let read = monitor(true).and_then(|()| read());
    let read = read.map_err(|error| error.context(prometheus.log_end()));
    let ended = prometheus.kill();
    monitor(false)?;
    ended.and(read)
}

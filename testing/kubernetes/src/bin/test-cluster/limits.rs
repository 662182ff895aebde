//! Bandwidth annotations: KEP-2819's end-to-end test, and live changes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::context::{Context, eventually, expect};
use crate::pods::{Pod, Template, create};

/// The namespace of the pods.
pub const NAMESPACE: &str = "netqos-test";

/// A pod with limits on the first node, and one without on the last one.
pub fn pods(context: &Context) -> anyhow::Result<(Pod, Pod)> {
    let template = |name, node, annotations| Template {
        namespace: NAMESPACE,
        name,
        node,
        labels: json!({}),
        annotations,
    };
    let [first, .., last] = context.nodes.as_slice() else {
        anyhow::bail!("two nodes are needed");
    };
    let limited = json!({
        "kubernetes.io/ingress-bandwidth": "10M",
        "kubernetes.io/egress-bandwidth": "10M",
    });
    let templates = [
        template("limited", first, limited),
        template("free", last, json!({})),
    ];
    let pods = create(context, &templates)?;
    Ok((pods[0].clone(), pods[1].clone()))
}

/// A pod is limited in both directions, and its peer is not.
pub fn both_directions(context: &mut Context) -> anyhow::Result<String> {
    let (limited, free) = pods(context)?;
    let kubectl = context.kubectl();
    let egress = expect("egress", free.receives_from(kubectl, &limited)?, 10.0, 6.0)?;
    let ingress = expect("ingress", limited.receives_from(kubectl, &free)?, 10.0, 6.0)?;
    // A third pod, since traffic within one pod bypasses its interface.
    let other = create(
        context,
        &[Template {
            namespace: NAMESPACE,
            name: "free-too",
            node: &limited.node,
            labels: json!({}),
            annotations: json!({}),
        }],
    )?;
    let without = other[0].receives_from(kubectl, &free)?;
    anyhow::ensure!(
        without > 100.0,
        "without a limit: {without:.0} Mbit/s, expected more than 100"
    );
    Ok(format!(
        "{egress}, {ingress}, without a limit {without:.0} Mbit/s"
    ))
}

/// A changed annotation applies to a running pod, and one that cannot be parsed changes nothing.
pub fn live_annotation(context: &mut Context) -> anyhow::Result<String> {
    let (limited, free) = pods(context)?;
    let kubectl = context.kubectl();
    let annotate = |value: &str| {
        let annotation = format!("kubernetes.io/egress-bandwidth={value}");
        kubectl.run(&[
            "-n",
            NAMESPACE,
            "annotate",
            "--overwrite",
            "pod",
            &limited.name,
            &annotation,
        ])
    };
    annotate("20M")?;
    let began = Instant::now();
    let programmed = eventually(Duration::from_secs(10), || {
        let status = context.status(&limited.node)?;
        anyhow::ensure!(status.contains("20 Mbit/s"), "not programmed:\n{status}");
        Ok(began.elapsed().as_secs_f64())
    })?;
    let changed = expect("20M", free.receives_from(kubectl, &limited)?, 20.0, 6.0)?;
    annotate("20Mbit")?;
    std::thread::sleep(Duration::from_secs(1));
    let kept = expect(
        "20Mbit (not a quantity)",
        free.receives_from(kubectl, &limited)?,
        20.0,
        6.0,
    )?;
    annotate("10M")?;
    Ok(format!("{changed} (seen after {programmed:.1} s), {kept}"))
}

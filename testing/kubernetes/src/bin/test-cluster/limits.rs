//! Bandwidth annotations: KEP-2819's end-to-end test, and live changes.

use std::thread;
use std::time::{Duration, Instant};

use crate::context::{Context, eventually, expect, expect_between};
use crate::pods::{Pod, Template, create};
use crate::{install, leave};

/// The namespace of the pods.
pub const NAMESPACE: &str = "netqos-test";

/// A pod with limits on the first node, and one without on the last one.
pub fn pods(context: &Context) -> anyhow::Result<(Pod, Pod)> {
    let [first, .., last] = context.nodes.as_slice() else {
        anyhow::bail!("two nodes are needed");
    };
    let templates = [
        Template::limited(NAMESPACE, "limited", first),
        Template::plain(NAMESPACE, "free", last),
    ];
    let pods = create(context, &templates)?;
    Ok((pods[0].clone(), pods[1].clone()))
}

/// A pod is limited in both directions, and its peer is not.
pub fn both_directions(context: &mut Context) -> anyhow::Result<String> {
    let (limited, free) = pods(context)?;
    let kubectl = context.kubectl();
    let egress = expect("egress", free.receives_from(kubectl, &limited)?, 10.0)?;
    let ingress = expect("ingress", limited.receives_from(kubectl, &free)?, 10.0)?;
    // A third pod, since traffic within one pod bypasses its interface.
    let other = Template::plain(NAMESPACE, "free-too", &limited.node);
    let other = create(context, &[other])?;
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
        let annotate = format!("annotate --overwrite pod {} {annotation}", limited.name);
        kubectl.line_in(NAMESPACE, &annotate)
    };
    annotate("20M")?;
    let began = Instant::now();
    let programmed = eventually(Duration::from_secs(10), || {
        let status = context.status(&limited.node)?;
        anyhow::ensure!(status.contains("20 Mbit/s"), "not programmed:\n{status}");
        Ok(began.elapsed().as_secs_f64())
    })?;
    let changed = expect("20M", free.receives_from(kubectl, &limited)?, 20.0)?;
    annotate("20Mbit")?;
    std::thread::sleep(Duration::from_secs(1));
    let kept = free.receives_from(kubectl, &limited)?;
    let kept = expect("20Mbit (not a quantity)", kept, 20.0)?;
    annotate("10M")?;
    Ok(format!("{changed} (seen after {programmed:.1} s), {kept}"))
}

/// Pods of the distribution's CNI plugins reach their limits where netqos is installed with the chart's defaults.
pub fn default_installation(context: &mut Context) -> anyhow::Result<String> {
    let installed = install::by_default(context)?;
    let measured = limits_of_running_pods(context);
    let left = leave::by_helm(context);
    let (measured, left) = (measured?, left?);
    let (limited, _) = pods(context)?;
    anyhow::ensure!(
        queue_length(context, &limited)? == 0,
        "its length is not restored"
    );
    Ok(format!("{installed}; {measured}; {left}"))
}

/// The transmit queue length of a pod's interface.
fn queue_length(context: &Context, pod: &Pod) -> anyhow::Result<u32> {
    let shown = pod.shell(context.kubectl(), "cat /sys/class/net/eth0/tx_queue_len")?;
    Ok(shown.trim().parse()?)
}

/// Measures pods that are born with annotations, and pods that get them while they run, in both directions at once.
fn limits_of_running_pods(context: &Context) -> anyhow::Result<String> {
    let (_, free) = pods(context)?;
    let kubectl = context.kubectl();
    // CNI plugins before 1.6 make links without a transmit queue.
    anyhow::ensure!(
        queue_length(context, &free)? == 0,
        "pods have a transmit queue"
    );
    let rates = |megabits: u32| {
        ["ingress", "egress"]
            .map(|direction| format!("kubernetes.io/{direction}-bandwidth={megabits}M"))
    };
    let cases = [(2, true), (2, false), (10, true), (10, false)];
    let names = cases.map(|(megabits, is_born_limited)| {
        let how = if is_born_limited { "born" } else { "annotated" };
        format!("{how}-{megabits}")
    });
    let templates = names.iter().zip(cases).map(|(name, (megabits, is_born))| {
        let rates = rates(megabits);
        let annotations = rates.iter().filter(|_| is_born);
        let annotations = annotations.filter_map(|it| it.split_once('='));
        Template {
            annotations: annotations.collect(),
            ..Template::plain(NAMESPACE, name, &context.nodes[0])
        }
    });
    let pods = create(context, &templates.collect::<Vec<_>>())?;
    for (name, (megabits, _)) in names.iter().zip(cases).filter(|(_, (_, is_born))| !is_born) {
        let [ingress, egress] = rates(megabits);
        let annotate = format!("annotate pod {name} {ingress} {egress}");
        kubectl.line_in(NAMESPACE, &annotate)?;
    }
    eventually(Duration::from_secs(10), || {
        let status = context.status(&context.nodes[0])?;
        for (name, (megabits, _)) in names.iter().zip(cases) {
            let rate = format!("{megabits} Mbit/s");
            let mut lines = status.lines().filter(|line| line.contains(name));
            let is_limited = lines.any(|line| line.contains(&rate));
            anyhow::ensure!(is_limited, "{name} is not limited to {rate}:\n{status}");
        }
        Ok(())
    })?;
    let measured = thread::scope(|scope| {
        let measure = |pod: &Pod| pod.exchanges_with(kubectl, &free);
        let started: Vec<_> = { pods.iter() }
            .map(|pod| scope.spawn(move || measure(pod)))
            .collect();
        let ended = started.into_iter().map(|it| it.join());
        ended.collect::<Vec<_>>()
    });
    // What their sockets still hold would count for others.
    let delete = format!("delete pod {}", names.join(" "));
    kubectl.line_in(NAMESPACE, &delete)?;
    let mut rates = Vec::new();
    for ((name, (megabits, _)), measured) in names.iter().zip(cases).zip(measured) {
        let measured = measured.map_err(|_| anyhow::anyhow!("a measurement panicked"))??;
        let megabits = f64::from(megabits);
        for (direction, rate) in ["ingress", "egress"].iter().zip(measured) {
            let what = format!("{name} {direction}");
            let (least, most) = (megabits * 0.9, megabits * 1.1);
            rates.push(expect_between(&what, rate, least, most)?);
        }
    }
    Ok(rates.join(", "))
}

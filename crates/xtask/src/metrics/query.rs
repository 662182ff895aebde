//! Holds a query to the registry: it parses, and names no metric and no label that nobody serves.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use promql_parser::label::Matchers;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};

use super::Registry;

/// What Prometheus adds to what it is told, by docs/install.md's way of asking for it.
const OF_TARGETS: [&str; 5] = ["job", "instance", "namespace", "pod", "node"];

/// Metrics of others: who serves them, and which of their labels are used.
const FOREIGN: [(&str, &[&str]); 4] = [
    // Of Prometheus itself.
    ("up", &[]),
    // Of kube-state-metrics.
    ("kube_lease_renew_time", &["lease"]),
    (
        "kube_daemonset_status_desired_number_scheduled",
        &["daemonset"],
    ),
    ("kube_daemonset_status_number_ready", &["daemonset"]),
];

/// Checks one query. What a dashboard puts in at its time is to be put in before.
///
/// # Errors
/// It is no query, or asks for what is not served; says what.
pub fn check(registry: &Registry, query: &str) -> anyhow::Result<()> {
    let expression = parser::parse(query).map_err(|why| anyhow!("{query}: {why}"))?;
    match labels(registry, &expression) {
        Ok(_) => Ok(()),
        Err(why) => bail!("{query}: {why}"),
    }
}

/// The labels of what an expression gives, those of targets left out where they may be there.
fn labels(registry: &Registry, at: &Expr) -> anyhow::Result<BTreeSet<String>> {
    if let Some(selector) = selector(at) {
        return selected(registry, selector);
    }
    let mut inside = BTreeSet::new();
    for child in children(at) {
        inside.extend(labels(registry, child)?);
    }
    let modifier = match at {
        Expr::Aggregate(aggregate) => aggregate.modifier.as_ref(),
        Expr::Binary(binary) => {
            let modifier = binary.modifier.as_ref();
            modifier.and_then(|modifier| modifier.matching.as_ref())
        }
        _ => None,
    };
    let named = modifier.map(|modifier| &modifier.labels().labels);
    for label in named.into_iter().flatten() {
        if !inside.contains(label) && !OF_TARGETS.contains(&label.as_str()) {
            bail!("nothing in it has the label {label}");
        }
    }
    if let Expr::Aggregate(aggregate) = at {
        match &aggregate.modifier {
            Some(LabelModifier::Include(by)) => inside.retain(|label| by.labels.contains(label)),
            Some(LabelModifier::Exclude(by)) => inside.retain(|label| !by.labels.contains(label)),
            None => inside.clear(),
        }
    }
    Ok(inside)
}

/// The labels of a metric, which is served with all that is asked of it.
fn selected(registry: &Registry, selector: &VectorSelector) -> anyhow::Result<BTreeSet<String>> {
    let Some(name) = &selector.name else {
        bail!("a selector without a metric")
    };
    let foreign = FOREIGN.iter().find(|(known, _)| known == name);
    let own = match (foreign, registry.labels(name)) {
        (Some((_, labels)), _) => labels.to_vec(),
        (None, Some(labels)) => labels,
        (None, None) => bail!("nobody serves {name}"),
    };
    let Matchers {
        matchers,
        or_matchers,
    } = &selector.matchers;
    for matcher in matchers.iter().chain(or_matchers.iter().flatten()) {
        let label = matcher.name.as_str();
        if !own.contains(&label) && !OF_TARGETS.contains(&label) {
            bail!("{name} has no label {label}");
        }
    }
    Ok(own.into_iter().map(str::to_owned).collect())
}

fn selector(at: &Expr) -> Option<&VectorSelector> {
    match at {
        Expr::VectorSelector(selector) => Some(selector),
        Expr::MatrixSelector(matrix) => Some(&matrix.vs),
        _ => None,
    }
}

fn children(at: &Expr) -> Vec<&Expr> {
    match at {
        Expr::Aggregate(it) => it.param.iter().chain([&it.expr]).map(|it| &**it).collect(),
        Expr::Unary(it) => vec![&it.expr],
        Expr::Binary(it) => vec![&it.lhs, &it.rhs],
        Expr::Paren(it) => vec![&it.expr],
        Expr::Subquery(it) => vec![&it.expr],
        Expr::Call(it) => it.args.args.iter().map(|it| &**it).collect(),
        _ => Vec::new(),
    }
}

//! How the node's lines are shared, and what of them a pod gets.

use comfy_table::{Table, presets};
use netqos_agent::{ClassStatus, DirectionStatus, LineStatus, PartStatus, ShareStatus, Status};
use netqos_core::ObjectName;

use crate::plan::{line_table, rate, share_cell};

/// A line in each direction: what classes may take of it, and take, and how full it is.
pub fn lines(status: &Status) -> Table {
    let mut table = line_table();
    let header = table.header().into_iter().flat_map(|it| it.cell_iter());
    let header: Vec<String> = header.map(|cell| cell.content()).collect();
    let more = ["CARRIES", "STATE"].map(str::to_owned);
    table.set_header(header.into_iter().chain(more));
    for line in &status.lines {
        for direction in ["ingress", "egress"] {
            let shares = line.shares.iter().filter(|it| it.direction == direction);
            let mut row = vec![line.name.clone(), direction.to_owned()];
            row.extend(shares.map(|share| {
                let may = share_cell(share.min, share.max);
                match share.rate {
                    Some(takes) => format!("{may}, takes {}", rate(takes)),
                    None => may,
                }
            }));
            row.push(way(line, direction).map_or_else(|| "-".to_owned(), carries));
            row.push(match line.failing.as_str() {
                "" => format!("shared by {}", line.divided_by),
                why => why.to_owned(),
            });
            table.add_row(row);
        }
    }
    table
}

fn way<'l>(line: &'l LineStatus, direction: &str) -> Option<&'l DirectionStatus> {
    line.directions.iter().find(|it| it.direction == direction)
}

fn carries(way: &DirectionStatus) -> String {
    let known = |bits: Option<u64>| bits.map_or_else(|| "?".to_owned(), rate);
    let full = if way.full { ", full" } else { "" };
    format!("{} of {}{full}", known(way.rate), known(way.total))
}

/// A pod, or flows of one, on a line: their class, who says it, and what they have.
pub fn classes(classes: &[ClassStatus]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "POD", "CLASS", "BY", "LINE", "FLOWS", "INGRESS", "EGRESS", "STATE",
    ]);
    for class in classes {
        let mut rows: Vec<(&str, &str, [&str; 2])> = Vec::new();
        for part in &class.parts {
            let row = (part.line.as_str(), part.flow.as_str());
            if !rows.iter().any(|it| (it.0, it.1) == row) {
                rows.push((row.0, row.1, ["ingress", "egress"]));
            }
        }
        for (line, flow, ways) in rows {
            let parts = ways.map(|way| {
                let mut parts = class.parts.iter();
                parts.find(|it| {
                    (it.line.as_str(), it.flow.as_str(), it.direction.as_str()) == (line, flow, way)
                })
            });
            let of = parts.into_iter().flatten().next();
            let cell = |part: Option<&PartStatus>| match part {
                None => "-".to_owned(),
                Some(part) if part.own => share_cell(part.min, part.max),
                Some(_) => "with its class".to_owned(),
            };
            table.add_row([
                format!("{}/{}", class.namespace, class.name),
                of.map_or_else(String::new, |it| it.class.clone()),
                class.because.clone(),
                line.to_owned(),
                if flow.is_empty() {
                    "all".to_owned()
                } else {
                    flow.to_owned()
                },
                cell(parts[0]),
                cell(parts[1]),
                state(class),
            ]);
        }
    }
    table
}

fn state(class: &ClassStatus) -> String {
    match (class.failing.as_str(), class.known_by.is_empty()) {
        ("", false) => "in force".to_owned(),
        ("", true) => "its traffic is not found, and is the system's".to_owned(),
        (why, _) => why.to_owned(),
    }
}

/// What is told of one pod alone, with all lines. `None`: there is no such pod.
pub fn only(mut status: Status, pod: &ObjectName) -> Option<Status> {
    let is_it = |namespace: &str, name: &str| (namespace, name) == (&*pod.namespace, &*pod.name);
    status
        .pod_classes
        .retain(|it| is_it(&it.namespace, &it.name));
    status.pods.retain(|it| is_it(&it.namespace, &it.name));
    status
        .attachments
        .retain(|it| is_it(&it.namespace, &it.name));
    let name = pod.to_string();
    status
        .problems
        .retain(|it| it.kind == "Node" || it.kind == "Pod" && it.name == name);
    let is_known =
        !status.pod_classes.is_empty() || !status.pods.is_empty() || !status.attachments.is_empty();
    is_known.then_some(status)
}

/// In which class a pod is, and why; and of each line, what it gets, what may hold it back, and how full
/// the line is.
pub fn of_pod(status: &Status, class: &ClassStatus) -> Vec<String> {
    let ClassStatus {
        namespace,
        name,
        because,
        known_by,
        ..
    } = class;
    let mut told = vec![format!(
        "{namespace}/{name} is {}, by {because}",
        class.class
    )];
    told.push(match known_by.is_empty() {
        false => format!("its traffic is known by {}", known_by.join(", ")),
        true => "its traffic is not found on this node, and counts as the system's".to_owned(),
    });
    if !class.failing.is_empty() {
        told.push(format!("not as it should be: {}", class.failing));
    }
    for part in &class.parts {
        let line = status.lines.iter().find(|it| it.name == part.line);
        let Some(line) = line else { continue };
        told.push(format!(
            "\n{} {}{}:",
            part.line,
            part.direction,
            flows(part)
        ));
        told.push(format!("  {}", gets(part, line)));
        told.extend(
            holds_back(part, line)
                .into_iter()
                .map(|it| format!("  {it}")),
        );
        if !line.failing.is_empty() {
            told.push(format!("  the line is not shared so: {}", line.failing));
        }
    }
    told
}

fn flows(part: &PartStatus) -> String {
    match part.flow.as_str() {
        "" => String::new(),
        flow => format!(", {flow}"),
    }
}

fn gets(part: &PartStatus, line: &LineStatus) -> String {
    let of = &part.class;
    let (min, max) = (rate(part.min), rate(part.max));
    let class = share(line, part);
    match (part.own, class) {
        (true, Some(class)) => format!(
            "has a part of its own of {of}: {min} guaranteed, at most {max}; the class has {}",
            share_cell(class.min, class.max)
        ),
        (true, None) => format!("has a part of its own of {of}: {min} guaranteed, at most {max}"),
        (false, _) => format!(
            "has no part of its own: all of {of} together are guaranteed {min}, and have at most {max}"
        ),
    }
}

fn share<'l>(line: &'l LineStatus, part: &PartStatus) -> Option<&'l ShareStatus> {
    let mut shares = line.shares.iter();
    shares.find(|it| it.direction == part.direction && it.class == part.class)
}

/// What keeps it from more now, as far as it is known what goes over the line.
fn holds_back(part: &PartStatus, line: &LineStatus) -> Vec<String> {
    let (class, way) = (share(line, part), way(line, &part.direction));
    let (Some(class), Some(way)) = (class, way) else {
        return Vec::new();
    };
    let Some(takes) = class.rate else {
        return vec!["what goes over the line is not known to netqos".to_owned()];
    };
    let mut told = vec![format!(
        "{} takes {}; the line carries {}",
        part.class,
        rate(takes),
        carries(way)
    )];
    // About all of it: the rest are gaps between packets.
    let is_at = |most: u64| takes as f64 >= most as f64 * 0.95;
    if is_at(class.max) && way.total != Some(class.max) {
        told.push(format!(
            "held back by the limit of its class, {}",
            rate(class.max)
        ));
    } else if way.full {
        told.push(match takes > class.min {
            true => format!(
                "held back by others: the line is full, and of more than {} a higher class has what it asks \
                 for first",
                rate(class.min)
            ),
            false => "the line is full, and its class has no more than it is guaranteed".to_owned(),
        });
    } else {
        told.push("not held back by the line now".to_owned());
    }
    if part.own && part.max < class.max {
        told.push(format!("never more than its own limit, {}", rate(part.max)));
    }
    told
}

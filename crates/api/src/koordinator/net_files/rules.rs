//! `qos-config`: what single flows of a pod have of their own.
//!
//! A rule has matches of the types `ip` (the other side's address or network), `port` (the port on
//! the pod, or `first-last`) and `dscp`, each with an `expr` like `=80`, and holds for packets that
//! all of them are true of; a match without an expression is true of every packet. Its actions are
//! `qos-class` (`l0`, `l1`, `l2`), `dscp`, `bandwidth_min` and `bandwidth_max` (bytes per second).
//! A rule without any match, which does nothing but with the bandwidth, is of the pod as a whole.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use netqos_core::classes::{Ask, Asked, FlowMatch, FlowPart, TrafficClass};
use netqos_core::{BitRate, Direction, Dscp};
use serde_json::{Map, Value, json};

use super::super::Mistake;

const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// What the rules of a pod say.
pub(super) fn written(asked: &Asked, flows: &[FlowPart]) -> Value {
    let rules = |direction| {
        let of_flows = flows
            .iter()
            .filter(move |flow| flow.direction == direction)
            .map(|flow| json!({"matchs": matches(&flow.flow), "actions": actions(flow)}));
        let ask = asked.of(direction);
        let whole = json!({"matchs": [], "actions": bandwidth(&ask)});
        of_flows.chain((!ask.is_nothing()).then_some(whole))
    };
    let lists = DIRECTIONS.map(|direction| {
        let rules: Vec<Value> = rules(direction).collect();
        (direction.to_string(), Value::Array(rules))
    });
    let said = lists.into_iter().filter(|(_, rules)| *rules != json!([]));
    Value::Object(said.collect())
}

fn matches(flow: &FlowMatch) -> Vec<Value> {
    let of = |kind: &str, expr: String| json!({"type": kind, "expr": format!("={expr}")});
    let port = |ports: &RangeInclusive<u16>| match (ports.start(), ports.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    let said = [
        flow.peer.as_ref().map(|peer| of("ip", peer.to_string())),
        flow.port.as_ref().map(|ports| of("port", port(ports))),
        flow.dscp.map(|dscp| of("dscp", dscp.to_string())),
    ];
    let said: Vec<Value> = said.into_iter().flatten().collect();
    // Without any, it would be of the pod as a whole.
    match said.is_empty() {
        true => vec![json!({"type": "ip"})],
        false => said,
    }
}

fn actions(flow: &FlowPart) -> Vec<Value> {
    let class = flow.class.map(|class| format!("l{}", class.priority()));
    let mut said: Vec<Value> = class
        .map(|class| action("qos-class", class))
        .into_iter()
        .collect();
    said.extend(flow.dscp.map(|dscp| action("dscp", dscp)));
    said.extend(bandwidth(&flow.ask));
    said
}

fn bandwidth(ask: &Ask) -> Vec<Value> {
    let min = Some(ask.min).filter(|min| min.bytes_per_second() > 0);
    let said = [("bandwidth_min", min), ("bandwidth_max", ask.max)];
    said.into_iter()
        .filter_map(|(name, rate)| Some(action(name, rate?.bytes_per_second())))
        .collect()
}

fn action(name: &str, value: impl Display) -> Value {
    json!({"action": name, "value": value.to_string()})
}

/// Reads the rules of a pod.
pub(super) fn read(
    config: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> (Asked, Vec<FlowPart>) {
    only(config, &["ingress", "egress"], path, mistakes);
    let mut asked = Asked::default();
    let mut flows = Vec::new();
    for direction in DIRECTIONS {
        let path = format!("{path}.{direction}");
        let mut whole: Option<Ask> = None;
        for (path, rule) in list(config, &direction.to_string(), &path, mistakes) {
            let Some(rule) = object(rule, &path, mistakes) else {
                continue;
            };
            only(rule, &["matchs", "actions"], &path, mistakes);
            let (flow, is_of_all) = read_matches(rule, &path, mistakes);
            let part = read_actions(rule, direction, flow, &path, mistakes);
            let is_whole = is_of_all && part.class.is_none() && part.dscp.is_none();
            match whole {
                _ if !is_whole => flows.push(part),
                None => whole = Some(part.ask),
                Some(_) => mistakes.push(Mistake::new(path, "a second rule of the whole pod")),
            }
        }
        match direction {
            Direction::Ingress => asked.ingress = whole.unwrap_or_default(),
            Direction::Egress => asked.egress = whole.unwrap_or_default(),
        }
    }
    (asked, flows)
}

/// The flows that are meant, and whether there is no match at all.
fn read_matches(
    rule: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> (FlowMatch, bool) {
    let mut flow = FlowMatch::default();
    let path = format!("{path}.matchs");
    let matches = list(rule, "matchs", &path, mistakes);
    let is_of_all = matches.is_empty();
    for (path, value) in matches {
        let Some(value) = object(value, &path, mistakes) else {
            continue;
        };
        only(value, &["type", "expr"], &path, mistakes);
        let expr = match value.get("expr") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(expr)) => expr.trim().trim_start_matches('=').trim().to_owned(),
            Some(other) => {
                mistakes.push(Mistake::new(
                    format!("{path}.expr"),
                    format!("{other} is no text"),
                ));
                continue;
            }
        };
        let is_any = expr.is_empty();
        let result = match value.get("type").and_then(Value::as_str) {
            Some("ip" | "port" | "dscp") if is_any => Ok(()),
            Some("ip") => once(&mut flow.peer, network(&expr)),
            Some("port") => once(&mut flow.port, ports(&expr)),
            Some("dscp") => once(&mut flow.dscp, code_point(&expr)),
            _ => Err("there are the types ip, port and dscp".to_owned()),
        };
        if let Err(what) = result {
            mistakes.push(Mistake::new(path, what));
        }
    }
    (flow, is_of_all)
}

fn read_actions(
    rule: &Map<String, Value>,
    direction: Direction,
    flow: FlowMatch,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> FlowPart {
    let (mut class, mut dscp, mut min, mut max) = (None, None, None, None);
    let path = format!("{path}.actions");
    for (path, value) in list(rule, "actions", &path, mistakes) {
        let Some(value) = object(value, &path, mistakes) else {
            continue;
        };
        only(value, &["action", "value"], &path, mistakes);
        let text = match value.get("value") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(other) => other.to_string(),
        };
        let result = match value.get("action").and_then(Value::as_str) {
            // As the proposal shows it where nothing is meant.
            Some("dscp") if text.is_empty() => Ok(()),
            Some("dscp") => once(&mut dscp, code_point(&text)),
            Some("qos-class") => once(&mut class, class_of(&text)),
            Some("bandwidth_min") => once(&mut min, rate(&text)),
            Some("bandwidth_max") => once(&mut max, rate(&text)),
            _ => Err(
                "there are the actions qos-class, dscp, bandwidth_min and bandwidth_max".to_owned(),
            ),
        };
        if let Err(what) = result {
            mistakes.push(Mistake::new(path, what));
        }
    }
    let ask = Ask {
        min: min.unwrap_or_default(),
        // As everywhere in these files, zero is no limit.
        max: max.filter(|max| max.bits_per_second() > 0),
    };
    if ask.max.is_some_and(|max| ask.min > max) {
        mistakes.push(Mistake::new(path, "bandwidth_min is above bandwidth_max"));
    }
    FlowPart {
        direction,
        flow,
        class,
        ask,
        dscp,
    }
}

fn once<T>(place: &mut Option<T>, read: Result<T, String>) -> Result<(), String> {
    match place.replace(read?) {
        Some(_) => Err("is said twice".to_owned()),
        None => Ok(()),
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpAddr>().map(IpNet::from);
    network
        .or_else(|_| text.parse::<IpNet>())
        .map_err(|_| format!("{text:?} is neither an address nor a network"))
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (number::<u16>(first), number::<u16>(last)) {
        (Some(first), Some(last)) if 1 <= first && first <= last => Ok(first..=last),
        _ => Err(format!(
            "{text:?} is neither a port from 1 to 65535 nor first-last"
        )),
    }
}

fn code_point(text: &str) -> Result<Dscp, String> {
    let wrong = || format!("{text:?} is no DSCP from 0 to 63");
    Dscp::try_new(number(text).ok_or_else(wrong)?).map_err(|_| wrong())
}

fn class_of(text: &str) -> Result<TrafficClass, String> {
    let named = TrafficClass::ALL
        .into_iter()
        .find(|class| text == format!("l{}", class.priority()));
    named.ok_or_else(|| format!("{text:?} is none of the classes l0, l1 and l2"))
}

fn rate(text: &str) -> Result<BitRate, String> {
    number::<u64>(text)
        .and_then(|bytes| bytes.checked_mul(8))
        .map(BitRate::from_bits_per_second)
        .ok_or_else(|| format!("{text:?} is no number of bytes per second"))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// The elements of a list, each with its path; none where there is no such list.
fn list<'v>(
    object: &'v Map<String, Value>,
    name: &str,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Vec<(String, &'v Value)> {
    match object.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values
            .iter()
            .enumerate()
            .map(|(index, value)| (format!("{path}[{index}]"), value))
            .collect(),
        Some(_) => {
            mistakes.push(Mistake::new(path, "is no list"));
            Vec::new()
        }
    }
}

fn object<'v>(
    value: &'v Value,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Option<&'v Map<String, Value>> {
    if value.as_object().is_none() {
        mistakes.push(Mistake::new(path, "is no object"));
    }
    value.as_object()
}

/// What is misspelt here would change whom a rule holds for.
fn only(object: &Map<String, Value>, known: &[&str], path: &str, mistakes: &mut Vec<Mistake>) {
    for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
        let what = format!("is not known; there are {}", known.join(" and "));
        mistakes.push(Mistake::new(format!("{path}.{name}"), what));
    }
}

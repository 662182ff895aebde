//! The JSON form: a list of objects.

use std::net::IpAddr;

use netqos_core::{BitRate, ByteCount, Direction, Limit, Limits, ObjectName};
use serde_json::{Map, Value};

use super::{HostPort, NetworkSelection, PortProtocol, check_interface, check_label, check_number};
use crate::npwg::error::{SelectionError, quoted};

/// The keys of an entry: those of the specification, and `deviceID` and `interfaceRequest` of Multus.
const KEYS: [&str; 13] = [
    "name",
    "namespace",
    "interface",
    "interfaceRequest",
    "ips",
    "mac",
    "cni-args",
    "portMappings",
    "bandwidth",
    "default-route",
    "infiniband-guid",
    "ipam-claim-reference",
    "deviceID",
];
const PORT_KEYS: [&str; 4] = ["hostPort", "containerPort", "protocol", "hostIP"];
const BANDWIDTH_KEYS: [&str; 4] = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];

/// The least rate that the kernel's token bucket can hold, in bits per second: one byte.
const MIN_RATE: u64 = 8;
/// The number of values in one list of an entry.
const MAX_VALUES: usize = 64;
/// The length of a device's name.
const MAX_DEVICE: usize = 128;

type Parsed<T> = Result<T, SelectionError>;

pub(super) fn parse(text: &str, pod_namespace: &str) -> Parsed<Vec<NetworkSelection>> {
    let list: Value = serde_json::from_str(text)
        .map_err(|error| SelectionError::of_list(format!("not valid JSON: {error}")))?;
    let Value::Array(list) = list else {
        let message = format!("the JSON form is a list of objects, not {}", kind_of(&list));
        return Err(SelectionError::of_list(message));
    };
    check_number(list.len())?;
    let entries = list.iter().enumerate().map(|(index, value)| {
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        entry(value, pod_namespace).map_err(|error| error.in_entry(index, name))
    });
    entries.collect()
}

fn entry(value: &Value, pod_namespace: &str) -> Parsed<NetworkSelection> {
    let Value::Object(fields) = value else {
        let message = format!("an entry is an object, not {}", kind_of(value));
        return Err(SelectionError::of_entry(message));
    };
    let fields = Fields::new("", fields);
    fields.refuse_unknown(&KEYS)?;
    let name = fields.text("name")?;
    let name =
        name.ok_or_else(|| fields.error("name", "required: the NetworkAttachmentDefinition"))?;
    fields.check("name", check_label("name", name))?;
    let namespace = fields.text("namespace")?.unwrap_or(pod_namespace);
    fields.check("namespace", check_label("namespace", namespace))?;
    let selection = NetworkSelection {
        nad: ObjectName::new(namespace, name),
        interface: interface(&fields)?,
        ips: fields.list("ips", true)?.map_or(Ok(Vec::new()), |list| {
            list.iter()
                .map(|(path, value)| address(path, value))
                .collect()
        })?,
        mac: mac(&fields)?,
        cni_args: fields.object("cni-args")?.cloned().unwrap_or_default(),
        port_mappings: fields
            .list("portMappings", true)?
            .map_or(Ok(Vec::new()), |list| {
                list.iter()
                    .map(|(path, value)| host_port(path, value))
                    .collect()
            })?,
        bandwidth: bandwidth(&fields)?,
        default_route: default_route(&fields)?,
        infiniband_guid: fields.parsed(
            "infiniband-guid",
            "a GUID of 8 bytes, such as 00:11:22:33:44:55:66:77",
        )?,
        ipam_claim: claim(&fields)?,
        device_id: device(&fields)?,
    };
    if selection.ipam_claim.is_some() && !selection.ips.is_empty() {
        let message = "cannot be together with ips: the claim has the addresses";
        return Err(fields.error("ipam-claim-reference", message));
    }
    Ok(selection)
}

fn interface(fields: &Fields<'_>) -> Parsed<Option<String>> {
    let (interface, old) = (fields.text("interface")?, fields.text("interfaceRequest")?);
    if let (Some(interface), Some(old)) = (interface, old)
        && interface != old
    {
        let message = "differs from interface, whose older name it is";
        return Err(fields.error("interfaceRequest", message));
    }
    let key = if interface.is_some() {
        "interface"
    } else {
        "interfaceRequest"
    };
    let name = interface.or(old);
    fields.check(key, name.map_or(Ok(()), check_interface))?;
    Ok(name.map(str::to_owned))
}

fn mac(fields: &Fields<'_>) -> Parsed<Option<crate::npwg::MacAddress>> {
    let mac: Option<crate::npwg::MacAddress> =
        fields.parsed("mac", "an Ethernet address, such as 02:00:00:00:00:07")?;
    match mac {
        Some(mac) if !mac.is_unicast() => {
            let message = format!("no interface can have {mac}: it is zero or a group's");
            Err(fields.error("mac", message))
        }
        mac => Ok(mac),
    }
}

fn address<T: std::str::FromStr>(path: &str, value: &Value) -> Parsed<T> {
    let Value::String(text) = value else {
        let message = format!("an IP address is a string, not {}", kind_of(value));
        return Err(SelectionError::of_key(path, message));
    };
    text.parse()
        .map_err(|_| SelectionError::of_key(path, format!("{} is not an IP address", quoted(text))))
}

fn default_route(fields: &Fields<'_>) -> Parsed<Option<Vec<IpAddr>>> {
    let Some(list) = fields.list("default-route", false)? else {
        return Ok(None);
    };
    let gateways: Vec<IpAddr> = (list.iter())
        .map(|(path, value)| address(path, value))
        .collect::<Parsed<_>>()?;
    Ok(Some(gateways))
}

fn host_port(path: &str, value: &Value) -> Parsed<HostPort> {
    let Value::Object(fields) = value else {
        let message = format!("a port mapping is an object, not {}", kind_of(value));
        return Err(SelectionError::of_key(path, message));
    };
    let fields = Fields::new(path, fields);
    fields.refuse_unknown(&PORT_KEYS)?;
    let port = |key| match fields.number(key)? {
        Some(port @ 1..=65535) => Ok(port as u16),
        Some(port) => Err(fields.error(key, format!("a port is from 1 to 65535, not {port}"))),
        None => Err(fields.error(key, "required: a port")),
    };
    let protocol = match fields.text("protocol")? {
        None => PortProtocol::default(),
        Some(text) => match text.to_ascii_lowercase().as_str() {
            "tcp" => PortProtocol::Tcp,
            "udp" => PortProtocol::Udp,
            "sctp" => PortProtocol::Sctp,
            _ => {
                let message = format!("{} is not TCP, UDP or SCTP", quoted(text));
                return Err(fields.error("protocol", message));
            }
        },
    };
    Ok(HostPort {
        host_port: port("hostPort")?,
        container_port: port("containerPort")?,
        protocol,
        host_ip: fields.parsed("hostIP", "an IP address")?,
    })
}

fn bandwidth(fields: &Fields<'_>) -> Parsed<Limits> {
    let Some(object) = fields.object("bandwidth")? else {
        return Ok(Limits::default());
    };
    let bandwidth = Fields::new("bandwidth", object);
    bandwidth.refuse_unknown(&BANDWIDTH_KEYS)?;
    let limits = Limits {
        ingress: limit(&bandwidth, Direction::Ingress)?,
        egress: limit(&bandwidth, Direction::Egress)?,
    };
    match limits.is_unlimited() {
        true => Err(fields.error("bandwidth", "has neither ingressRate nor egressRate")),
        false => Ok(limits),
    }
}

fn limit(bandwidth: &Fields<'_>, direction: Direction) -> Parsed<Option<Limit>> {
    let (rate_key, burst_key) = (format!("{direction}Rate"), format!("{direction}Burst"));
    let (rate, burst) = (bandwidth.number(&rate_key)?, bandwidth.number(&burst_key)?);
    let rate = match (rate, burst) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            let message = format!("has no effect without {rate_key}");
            return Err(bandwidth.error(&burst_key, message));
        }
        (Some(rate), _) => rate,
    };
    if rate < MIN_RATE {
        let message = format!("a rate is at least {MIN_RATE} bits per second, not {rate}");
        return Err(bandwidth.error(&rate_key, message));
    }
    let burst = match burst {
        None => None,
        Some(bits @ ..8) => {
            let message = format!("a burst is at least 8 bits, not {bits}");
            return Err(bandwidth.error(&burst_key, message));
        }
        Some(bits) => Some(ByteCount::from_bits(bits)),
    };
    Ok(Some(Limit {
        burst,
        ..Limit::of(BitRate::from_bits_per_second(rate))
    }))
}

fn claim(fields: &Fields<'_>) -> Parsed<Option<String>> {
    let claim = fields.text("ipam-claim-reference")?;
    // An object's name: labels with dots between them.
    let is_name = |name: &str| {
        name.len() <= 253 && name.split('.').all(|label| check_label("", label).is_ok())
    };
    match claim {
        Some(name) if !is_name(name) => {
            let message = format!("{} is not an object's name", quoted(name));
            Err(fields.error("ipam-claim-reference", message))
        }
        claim => Ok(claim.map(str::to_owned)),
    }
}

/// Plugins make paths of it: it is a single component that begins with a letter or digit.
fn device(fields: &Fields<'_>) -> Parsed<Option<String>> {
    let device = fields.text("deviceID")?;
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    let is_device = |name: &str| {
        name.len() <= MAX_DEVICE
            && name
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_alphanumeric())
            && name.bytes().all(is_inner)
    };
    match device {
        Some(name) if !is_device(name) => {
            let message = format!(
                "{} is not a device: 1 to {MAX_DEVICE} letters, digits, _, -, . and :, the first a letter or digit",
                quoted(name)
            );
            Err(fields.error("deviceID", message))
        }
        device => Ok(device.map(str::to_owned)),
    }
}

/// An object, and the keys that lead to it. A value `null` is as good as no key, and so is an empty string, as in Go.
struct Fields<'v> {
    path: &'v str,
    fields: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
    const fn new(path: &'v str, fields: &'v Map<String, Value>) -> Self {
        Self { path, fields }
    }

    fn path_of(&self, key: &str) -> String {
        match self.path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn error(&self, key: &str, message: impl Into<String>) -> SelectionError {
        SelectionError::of_key(self.path_of(key), message)
    }

    fn check(&self, key: &str, result: Result<(), String>) -> Parsed<()> {
        result.map_err(|message| self.error(key, message))
    }

    /// Keys with a period are other programs'; the specification keeps the rest for itself.
    fn refuse_unknown(&self, known: &[&str]) -> Parsed<()> {
        let is_unknown = |key: &&String| !known.contains(&key.as_str()) && !key.contains('.');
        let Some(key) = self.fields.keys().find(is_unknown) else {
            return Ok(());
        };
        let same_letters = known.iter().find(|it| it.eq_ignore_ascii_case(key));
        let message = match same_letters {
            Some(right) => format!("unknown key; write {right}"),
            None => format!("unknown key; the keys are {}", known.join(", ")),
        };
        let key = quoted(key);
        Err(self.error(key.trim_matches('"'), message))
    }

    fn get(&self, key: &str) -> Option<&'v Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Parsed<Option<&'v str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(other) => Err(self.type_error(key, "a string", other)),
        }
    }

    fn number(&self, key: &str) -> Parsed<Option<u64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.as_u64();
        let expected = "a whole number above zero";
        match number.ok_or_else(|| self.type_error(key, expected, value))? {
            0 => Err(self.error(key, format!("{expected}, not 0"))),
            number => Ok(Some(number)),
        }
    }

    /// The values of a list, each with the keys that lead to it.
    fn list(&self, key: &str, has_values: bool) -> Parsed<Option<Vec<(String, &'v Value)>>> {
        let list = match self.get(key) {
            None => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(self.type_error(key, "a list", other)),
        };
        if list.is_empty() && has_values {
            return Err(self.error(key, "the list is empty; leave the key out"));
        }
        if list.len() > MAX_VALUES {
            let message = format!("at most {MAX_VALUES} values, not {}", list.len());
            return Err(self.error(key, message));
        }
        let path = self.path_of(key);
        let values = list.iter().enumerate();
        Ok(Some(
            values
                .map(|(index, value)| (format!("{path}[{index}]"), value))
                .collect(),
        ))
    }

    fn object(&self, key: &str) -> Parsed<Option<&'v Map<String, Value>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.type_error(key, "an object", other)),
        }
    }

    fn parsed<T: std::str::FromStr>(&self, key: &str, expected: &str) -> Parsed<Option<T>> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let wrong = |_| self.error(key, format!("{} is not {expected}", quoted(text)));
        text.parse().map(Some).map_err(wrong)
    }

    fn type_error(&self, key: &str, expected: &str, found: &Value) -> SelectionError {
        self.error(key, format!("{expected}, not {}", kind_of(found)))
    }
}

/// A value for messages: the value itself where it is short, else its type.
fn kind_of(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

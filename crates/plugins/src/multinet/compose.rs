//! Lists and arguments of attachments: what a NetworkAttachmentDefinition says, with what the pod requests.

use netqos_api::capability::{self, bandwidth_argument};
use netqos_api::multinet::{CNI_DRIVER, RecordedAttachment};
use netqos_api::npwg::{NetworkSelection, PortProtocol, config_list};
use serde_json::{Map, Value, json};

/// The argument of this capability is a GUID.
const INFINIBAND_GUID: &str = "infinibandGUID";
const DEVICE_ID: &str = "deviceID";

/// Returns the list of a NetworkAttachmentDefinition with what the pod writes into it: arguments and a device.
/// `config` is the NAD's configuration, a list or a single plugin.
///
/// # Errors
/// Returns an error if the configuration is not a list of plugins.
pub fn list_for(selection: &NetworkSelection, config: &str) -> Result<Map<String, Value>, String> {
    let wrong = |why| format!("spec.config is not a network configuration in JSON: {why}");
    let mut list = config_list(config, &selection.nad.name).map_err(wrong)?;
    for plugin in plugins(&mut list)? {
        if !selection.cni_args.is_empty() {
            merge_cni_args(plugin, &selection.cni_args)?;
        }
        if let Some(id) = &selection.device_id {
            put_device(plugin, id);
        }
    }
    Ok(list)
}

/// Returns true if a plugin of the list has the capability.
pub fn declares(list: &Map<String, Value>, capability: &str) -> bool {
    let plugins = list.get("plugins").and_then(Value::as_array);
    let mut capabilities = plugins
        .into_iter()
        .flatten()
        .filter_map(|it| it.get("capabilities"));
    capabilities.any(|it| it.get(capability) == Some(&Value::Bool(true)))
}

fn put_device(plugin: &mut Map<String, Value>, id: &str) {
    plugin.insert(DEVICE_ID.to_owned(), id.into());
    plugin.insert("pciBusID".to_owned(), id.into());
}

/// Returns the attachment of a selection by its list. `device` is one that the kubelet gave to the pod, and `args` are
/// those of the runtime that name the pod.
///
/// # Errors
/// Returns an error if no plugin of the list can do what the pod requests.
pub fn attachment(
    selection: &NetworkSelection,
    interface: String,
    mut list: Map<String, Value>,
    device: Option<&str>,
    args: &[(String, String)],
) -> Result<RecordedAttachment, String> {
    let mut capability_args = requests(selection);
    if let Some(id) = device.or(selection.device_id.as_deref()) {
        capability_args.insert(DEVICE_ID.to_owned(), id.into());
    }
    if let Some(device) = device {
        for plugin in plugins(&mut list)? {
            put_device(plugin, device);
        }
    }
    plugins(&mut list)?;
    for (name, argument) in &capability_args {
        if name == capability::BANDWIDTH && fixes_bandwidth(&list) {
            return Err(
                "the pod requests bandwidth, and plugin bandwidth of the configuration takes none from pods: it has \
                 limits of its own, or does not declare that capability"
                    .to_owned(),
            );
        }
        if declares(&list, name) || name == DEVICE_ID {
            continue;
        }
        if name != capability::BANDWIDTH {
            return Err(format!(
                "the pod requests {name} {argument}, and no plugin of the configuration has that capability"
            ));
        }
        append_bandwidth(&mut list);
    }
    Ok(RecordedAttachment {
        driver: CNI_DRIVER.to_owned(),
        nad: Some(selection.nad.to_string()),
        interface,
        ends: None,
        list,
        args: args.to_vec(),
        capability_args,
        selects_bandwidth: !selection.bandwidth.is_unlimited(),
        default_route: selection.default_route.clone(),
        device_info: None,
    })
}

/// Returns the arguments of capabilities for what a pod requests.
fn requests(selection: &NetworkSelection) -> Map<String, Value> {
    let mut requests = Map::new();
    let mut request = |name: &str, argument: Value| requests.insert(name.to_owned(), argument);
    if !selection.ips.is_empty() {
        let ips = selection.ips.iter().map(ToString::to_string);
        request(capability::IPS, ips.collect());
    }
    if let Some(mac) = selection.mac {
        request(capability::MAC, mac.to_string().into());
    }
    if !selection.port_mappings.is_empty() {
        let mappings = selection.port_mappings.iter().map(|it| {
            let protocol = match it.protocol {
                PortProtocol::Tcp => "tcp",
                PortProtocol::Udp => "udp",
                PortProtocol::Sctp => "sctp",
            };
            let host_ip = it.host_ip.map(|address| address.to_string());
            json!({
                "hostPort": it.host_port,
                "containerPort": it.container_port,
                "protocol": protocol,
                "hostIP": host_ip.unwrap_or_default(),
            })
        });
        request(capability::PORT_MAPPINGS, mappings.collect());
    }
    if !selection.bandwidth.is_unlimited() {
        request(
            capability::BANDWIDTH,
            bandwidth_argument(&selection.bandwidth),
        );
    }
    if let Some(guid) = selection.infiniband_guid {
        request(INFINIBAND_GUID, guid.to_string().into());
    }
    requests
}

fn plugins(list: &mut Map<String, Value>) -> Result<Vec<&mut Map<String, Value>>, String> {
    let Some(Value::Array(plugins)) = list.get_mut("plugins") else {
        return Err("spec.config: plugins is not a list".to_owned());
    };
    let objects = plugins.iter_mut().map(|plugin| match plugin {
        Value::Object(plugin) => Ok(plugin),
        _ => Err("spec.config: a plugin is not an object".to_owned()),
    });
    let objects: Vec<_> = objects.collect::<Result<_, _>>()?;
    match objects.is_empty() {
        true => Err("spec.config: the list has no plugins".to_owned()),
        false => Ok(objects),
    }
}

/// Merges arguments into `args.cni`; those of the pod precede.
fn merge_cni_args(
    plugin: &mut Map<String, Value>,
    args: &Map<String, Value>,
) -> Result<(), String> {
    let mut target = plugin;
    for key in ["args", "cni"] {
        let value = target.entry(key).or_insert_with(|| json!({}));
        target = match value {
            Value::Object(object) => object,
            _ => return Err(format!("spec.config: {key} is not an object")),
        };
    }
    target.extend(args.clone());
    Ok(())
}

/// Returns true if the list has a plugin that enforces a bandwidth, and no other than its own. A second one would take its
/// place.
fn fixes_bandwidth(list: &Map<String, Value>) -> bool {
    let plugins = list.get("plugins").and_then(Value::as_array);
    let mut plugins = plugins.into_iter().flatten();
    plugins.any(|plugin| {
        let has_rate = ["ingressRate", "egressRate"]
            .iter()
            .any(|key| plugin[key].as_f64().is_some_and(|rate| rate > 0.0));
        let is_capable = plugin["capabilities"][capability::BANDWIDTH] == true;
        plugin["type"] == capability::BANDWIDTH && (has_rate || !is_capable)
    })
}

/// Adds the plugin that enforces a bandwidth.
fn append_bandwidth(list: &mut Map<String, Value>) {
    if let Some(Value::Array(plugins)) = list.get_mut("plugins") {
        plugins.push(json!({"type": "bandwidth", "capabilities": {capability::BANDWIDTH: true}}));
    }
}

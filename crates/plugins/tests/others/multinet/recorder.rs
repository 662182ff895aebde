//! Plugins that record their calls, and do nothing else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::fixture::{BIN, PLUGINS, write_script};

const CALLS: &str = "/run/calls";
const CONFIGS: &str = "/run/configs";

/// Writes plugins of these names. Their ADD fails where the configuration has `"fails": true`.
pub fn install(names: &[&str]) {
    fs::create_dir_all(CONFIGS).unwrap();
    forget();
    for name in names {
        let script = format!(
            "#!/bin/sh\n\
             config=$(cat)\n\
             call=\"{name} $CNI_COMMAND $CNI_IFNAME\"\n\
             echo \"$call begins\" >> {CALLS}\n\
             printf %s \"$config\" > \"{CONFIGS}/$call\"\n\
             printf %s \"$CNI_ARGS\" > \"{CONFIGS}/$call args\"\n\
             sleep 0.02\n\
             echo \"$call ends\" >> {CALLS}\n\
             case \"$CNI_COMMAND $config\" in\n\
             ADD*'\"fails\":true'*) echo '{{\"cniVersion\":\"1.0.0\",\"code\":100,\"msg\":\"as told\"}}'; exit 1 ;;\n\
             ADD*) echo '{{\"cniVersion\":\"1.0.0\"}}' ;;\n\
             esac\n"
        );
        write_script(name, &script);
    }
}

/// Forgets the calls so far.
pub fn forget() {
    fs::write(CALLS, "").unwrap();
}

/// The calls so far, in their order: plugin, command, interface. Asserts that each ended before the next one began.
pub fn calls() -> Vec<String> {
    let text = fs::read_to_string(CALLS).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let call = |pair: &[&str]| {
        let call = pair[0].strip_suffix(" begins").unwrap();
        assert_eq!(
            pair.get(1).copied(),
            Some(&*format!("{call} ends")),
            "{text}"
        );
        call.to_owned()
    };
    lines.chunks(2).map(call).collect()
}

/// The configuration that a plugin got in its last call with this command and interface.
pub fn config(call: &str) -> Value {
    let text = fs::read(Path::new(CONFIGS).join(call)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// `CNI_ARGS` of a plugin's last call with this command and interface.
pub fn args(call: &str) -> String {
    fs::read_to_string(Path::new(CONFIGS).join(format!("{call} args"))).unwrap()
}

/// The plugin's configuration where the default network is made by a recorder of this name, with these keys.
pub fn default_network(name: &str, keys: &Value) -> Value {
    let mut plugin = json!({"type": name});
    let keys = keys.as_object().unwrap().clone();
    plugin.as_object_mut().unwrap().extend(keys);
    let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]});
    json!({"pluginDirs": [BIN, PLUGINS], "defaultNetwork": list})
}

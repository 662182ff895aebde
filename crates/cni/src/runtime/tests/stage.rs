//! Plugins that are shell scripts: each call is recorded, and answers as it was told to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::runtime::{AttachmentRequest, NetworkConfigList, Runtime};

/// Records its environment and standard input in `calls/<n>`, then prints `<name>.<command>.out`
/// and ends with the number in `<name>.<command>.exit`, where there are such files.
const SCRIPT: &str = r#"#!/bin/sh
stage=$(dirname "$0")
call=$stage/calls/$(ls "$stage/calls" | wc -l)
mkdir "$call"
basename "$0" > "$call/plugin"
env > "$call/env"
cat > "$call/stdin"
answer=$0.$CNI_COMMAND
[ -e "$answer.err" ] && cat "$answer.err" >&2
[ -e "$answer.out" ] && cat "$answer.out"
[ -e "$answer.exit" ] && exit "$(cat "$answer.exit")"
exit 0
"#;

/// A folder of such plugins, with a cache beside them.
pub(crate) struct Stage {
    dir: TempDir,
}

/// One call of a plugin.
pub(crate) struct Call {
    pub(crate) plugin: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: Value,
}

impl Call {
    /// Which plugin was asked what: `first ADD`.
    pub(crate) fn summary(&self) -> String {
        format!("{} {}", self.plugin, self.env["CNI_COMMAND"])
    }
}

impl Stage {
    /// A stage with these plugins, which answer ADD with a result of this version.
    pub(crate) fn with(plugins: &[&str], version: &str) -> Self {
        let stage = Self {
            dir: TempDir::new().unwrap(),
        };
        fs::create_dir(stage.path("calls")).unwrap();
        for plugin in plugins {
            let path = stage.path(plugin);
            fs::write(&path, SCRIPT).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let result = json!({
                "cniVersion": version,
                "interfaces": [{"name": plugin, "made": "here"}],
                "ips": [{"address": "10.0.0.2/24", "version": "4"}],
            });
            stage.answer(plugin, "ADD", &result.to_string(), 0);
        }
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What a plugin answers from now on.
    pub(crate) fn answer(&self, plugin: &str, command: &str, stdout: &str, exit: u8) {
        let path = |kind: &str| self.path(&format!("{plugin}.{command}.{kind}"));
        fs::write(path("out"), stdout).unwrap();
        fs::write(path("exit"), exit.to_string()).unwrap();
    }

    /// What it writes to standard error besides.
    pub(crate) fn complain(&self, plugin: &str, command: &str, stderr: &str) {
        fs::write(self.path(&format!("{plugin}.{command}.err")), stderr).unwrap();
    }

    pub(crate) fn runtime(&self) -> Runtime {
        Runtime::new(
            [Path::new("/nonexistent"), self.dir.path()],
            self.path("cache"),
        )
    }

    /// The file in which the attachment of [`request`] is remembered.
    pub(crate) fn cache_file(&self) -> PathBuf {
        self.path("cache/results/net-c1-eth0")
    }

    /// The calls so far, which are then forgotten.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let folder = self.path("calls");
        let count = fs::read_dir(&folder).unwrap().count();
        let calls = (0..count)
            .map(|number| {
                let read = |name: &str| {
                    fs::read_to_string(folder.join(number.to_string()).join(name)).unwrap()
                };
                Call {
                    plugin: read("plugin").trim().to_owned(),
                    env: read("env")
                        .lines()
                        .filter_map(|line| line.split_once('='))
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect(),
                    stdin: serde_json::from_str(&read("stdin")).unwrap(),
                }
            })
            .collect();
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        calls
    }

    pub(crate) fn summaries(&self) -> Vec<String> {
        self.calls().iter().map(Call::summary).collect()
    }
}

/// The network `net` of these plugins.
pub(crate) fn list(version: &str, plugins: Value) -> NetworkConfigList {
    let text = json!({"name": "net", "cniVersion": version, "plugins": plugins}).to_string();
    NetworkConfigList::parse(text.as_bytes()).unwrap()
}

/// The attachment `net/c1/eth0`.
pub(crate) fn request() -> AttachmentRequest {
    AttachmentRequest::new("c1", "eth0").in_netns("/run/netns/c1")
}

/// Three plugins for the network [`list`], of which the second declares capabilities.
pub(crate) fn three() -> Value {
    json!([
        {"type": "first", "ipam": {"x": 9_007_199_254_740_993_u64}},
        {"type": "second", "capabilities": {"bandwidth": true, "ips": false}},
        {"type": "third", "runtimeConfig": {"old": 1}},
    ])
}

/// The plugins of [`three`].
pub(crate) fn stage() -> Stage {
    Stage::with(&["first", "second", "third"], "1.0.0")
}

/// [`request`] with arguments and capabilities.
pub(crate) fn full_request() -> AttachmentRequest {
    request()
        .with_arg("IgnoreUnknown", "1")
        .with_arg("K8S_POD_NAME", "web")
        .with_capability("bandwidth", json!({"ingressRate": 1_000_000}))
        .with_capability("ips", json!(["10.0.0.9"]))
        .with_capability("mac", json!("00:11:22:33:44:55"))
}

//! The archive that `scripts/image` writes, read back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::generated::root;

const EXECUTABLES: [&str; 5] = [
    "bandwidth",
    "netqos",
    "netqos-agent",
    "netqos-controller",
    "netqos-multinet",
];

/// A directory of executables, and the archive that is made of them.
struct Fixture {
    home: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("dist")).unwrap();
        for name in EXECUTABLES {
            fs::write(home.path().join("dist").join(name), name.repeat(1000)).unwrap();
        }
        Self { home }
    }

    fn executable(&self, name: &str) -> PathBuf {
        self.home.path().join("dist").join(name)
    }

    fn archive(&self) -> PathBuf {
        self.home.path().join("out/netqos.tar")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(root().join("scripts/image"));
        command.env_remove("IMAGE");
        command.args([self.home.path().join("dist"), self.archive()]);
        command
    }

    /// Writes the archive, and unpacks it.
    fn layout(&self) -> PathBuf {
        output(&mut self.command());
        let layout = self.home.path().join("layout");
        fs::create_dir(&layout).unwrap();
        let mut tar = Command::new("tar");
        output(tar.arg("-xf").arg(self.archive()).arg("-C").arg(&layout));
        layout
    }
}

/// What a command printed that succeeded.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sha256(path: &Path) -> String {
    let line = output(Command::new("sha256sum").arg(path));
    format!("sha256:{}", line.split(' ').next().unwrap())
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The blob that a descriptor refers to.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap();
    let (_, name) = digest.split_once("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(name);
    assert_eq!(sha256(&path), digest, "{descriptor}");
    let size = fs::metadata(&path).unwrap().len();
    assert_eq!(descriptor["size"], json!(size), "{descriptor}");
    path
}

/// What the last stage of `deploy/Containerfile` says: its files, and its entry point.
fn containerfile() -> (Vec<String>, Value) {
    let text = fs::read_to_string(root().join("deploy/Containerfile")).unwrap();
    let (_, stage) = text.split_once("FROM scratch\n").unwrap();
    let (mut files, mut entry) = (Vec::new(), Value::Null);
    for line in stage.lines() {
        match line.split_once(' ').unwrap() {
            ("COPY", words) => {
                let names = words.strip_suffix(" /").unwrap();
                files.extend(names.split(' ').map(str::to_owned));
            }
            ("ENTRYPOINT", words) => entry = serde_json::from_str(words).unwrap(),
            _ => panic!("scripts/image does not know: {line}"),
        }
    }
    files.sort();
    (files, entry)
}

#[test]
fn image_read_back_is_what_the_containerfile_describes() {
    let fixture = Fixture::new();
    let layout = fixture.layout();
    let version = read_json(&layout.join("oci-layout"));
    assert_eq!(version, json!({"imageLayoutVersion": "1.0.0"}));
    let index = read_json(&layout.join("index.json"));
    let [described] = &index["manifests"].as_array().unwrap()[..] else {
        panic!("{index}");
    };
    let manifest = read_json(&blob(&layout, described));
    assert_eq!(manifest["mediaType"], described["mediaType"]);
    let config_path = blob(&layout, &manifest["config"]);
    let [layer] = &manifest["layers"].as_array().unwrap()[..] else {
        panic!("{manifest}");
    };
    let layer_path = blob(&layout, layer);

    let (files, entry) = containerfile();
    let config = read_json(&config_path);
    assert_eq!(config["config"], json!({"Entrypoint": entry}));
    assert_eq!(config["os"], "linux");
    assert_eq!(
        described["platform"]["architecture"],
        config["architecture"]
    );

    let unpacked = layout.join("layer.tar");
    let mut gunzip = Command::new("gzip");
    let content = gunzip.arg("-dc").arg(&layer_path).output().unwrap().stdout;
    fs::write(&unpacked, content).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"], json!([sha256(&unpacked)]));
    let mut list = Command::new("tar");
    let list = output(list.env("TZ", "UTC").arg("-tvf").arg(&unpacked));
    let expected = files.iter().map(|name| {
        let size = fs::metadata(fixture.executable(name)).unwrap().len();
        format!("-rwxr-xr-x 0/0 {size} 1970-01-01 00:00 {name}")
    });
    let seen = list.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ")
    });
    assert_eq!(seen.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    // The other index, for tools that read what `docker save` writes.
    let others = read_json(&layout.join("manifest.json"));
    let relative = |path: &Path| path.strip_prefix(&layout).unwrap().to_owned();
    assert_eq!(others[0]["Config"], json!(relative(&config_path)));
    assert_eq!(others[0]["Layers"], json!([relative(&layer_path)]));
}

#[test]
fn image_name_is_what_the_manifests_pull() {
    let fixture = Fixture::new();
    let layout = fixture.layout();
    let path = root().join("deploy/kustomize/base/agent-daemonset.yaml");
    let manifests = fs::read_to_string(path).unwrap();
    let pulled = { manifests.lines() }.find_map(|line| line.trim().strip_prefix("image: "));
    let pulled = pulled.unwrap().trim_matches('"');
    let index = read_json(&layout.join("index.json"));
    let names = &index["manifests"][0]["annotations"];
    assert_eq!(names["io.containerd.image.name"], pulled);
    assert_eq!(names["org.opencontainers.image.ref.name"], pulled);
    let others = read_json(&layout.join("manifest.json"));
    assert_eq!(others[0]["RepoTags"], json!([pulled]));
}

#[test]
fn image_of_same_executables_has_same_bytes() {
    let fixture = Fixture::new();
    output(&mut fixture.command());
    let first = fs::read(fixture.archive()).unwrap();
    for name in EXECUTABLES {
        let path = fixture.executable(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        output(Command::new("touch").arg("--date=2001-02-03").arg(path));
    }
    output(
        fixture
            .command()
            .env("TZ", "Asia/Tokyo")
            .env("LC_ALL", "C.UTF-8"),
    );
    assert!(fs::read(fixture.archive()).unwrap() == first);
    let left = fs::read_dir(fixture.archive().parent().unwrap()).unwrap();
    assert_eq!(left.count(), 1, "temporary files stay");

    fs::write(fixture.executable("netqos"), "other").unwrap();
    output(&mut fixture.command());
    assert!(fs::read(fixture.archive()).unwrap() != first);
}

#[test]
fn image_without_an_executable_is_refused() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.executable("netqos-agent")).unwrap();
    let output = fixture.command().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("dist/netqos-agent is missing; run make build"),
        "{text}"
    );
    assert!(!fixture.archive().exists());
}

#[test]
fn image_name_that_no_registry_takes_is_refused() {
    let fixture = Fixture::new();
    for name in [
        "netqos",
        "UPPER/netqos:1",
        "x/netqos:",
        "x/net\"qos:1",
        "x//netqos:1 ",
    ] {
        let output = fixture.command().env("IMAGE", name).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains("is not NAME:TAG"), "{name}");
    }
    output(
        fixture
            .command()
            .env("IMAGE", "registry.example.com:5000/a/net-qos_x:v1.2-RC"),
    );
}

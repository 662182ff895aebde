//! Sandboxes of other lists, and a default network that cannot be read.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::fixture::{start, wait_until};

#[test]
fn gc_by_another_list_leaves_the_sandbox() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    node.add(&pod, Some("lan"));
    let attached = node.inventory();
    let none =
        |name: &str| json!({"cniVersion": "1.1.0", "name": name, "cni.dev/valid-attachments": []});
    node.call("GC", &pod, None, none("other"))
        .succeed()
        .unwrap();
    assert_eq!(node.inventory(), attached);
    node.check(&pod);
    node.call("GC", &pod, None, none("pods")).succeed().unwrap();
    assert_eq!(node.inventory(), before);

    // An administrator may have given the list another name since.
    let gone = node.pod("gone");
    node.add(&gone, Some("lan"));
    node.remove(&gone);
    node.call("GC", &pod, None, none("other"))
        .succeed()
        .unwrap();
    node.assert_only(&before);
}

/// Passes one message on to the agent once `/run/go` is there.
fn answer_late(listener: &UnixListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut message = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut message)?;
    fs::write("/run/waits", "")?;
    wait_until(|| Path::new("/run/go").exists());
    let mut agent = UnixStream::connect("/run/netqos/multinet.sock")?;
    agent.write_all(message.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(agent).read_line(&mut answer)?;
    stream.write_all(answer.as_bytes())
}

/// GC knows the sandbox by its lock, and waits for it.
#[test]
fn gc_by_another_list_leaves_a_sandbox_whose_add_ends_meanwhile() {
    let Some((node, pod)) = start() else { return };
    let listener = UnixListener::bind("/run/late.sock").unwrap();
    let agent = thread::spawn(move || answer_late(&listener));
    let late = json!({"socket": "/run/late.sock"});
    let add = node.call("ADD", &pod, Some("lan"), late).start().unwrap();
    wait_until(|| Path::new("/run/waits").exists());
    assert!(!Path::new("/var/lib/netqos/multinet/pods/web.json").exists());
    let other = json!({"cniVersion": "1.1.0", "name": "other", "cni.dev/valid-attachments": []});
    let gc = node.call("GC", &pod, None, other).start().unwrap();
    thread::sleep(Duration::from_millis(300));
    fs::write("/run/go", "").unwrap();
    agent.join().unwrap().unwrap();
    let added = add.finish().unwrap();
    assert_eq!(added.code, Some(0), "{added:?}");
    let collected = gc.finish().unwrap();
    assert_eq!(collected.code, Some(0), "{collected:?}");
    node.check(&pod);
}

/// The runtime attached the pod before this plugin came, and its result is lost.
#[test]
fn del_without_the_default_network_fails_while_the_pod_has_its_interface() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    node.add(&pod, None);
    fs::remove_dir_all("/var/lib/netqos/multinet").unwrap();
    fs::create_dir_all("/run/lists").unwrap();
    let list = "/run/lists/10-pods.conflist";
    fs::write(list, "{\"cniVersion\": ").unwrap();
    let from_file = || json!({"defaultNetwork": list});
    let (code, error) = node.call("DEL", &pod, None, from_file()).fail().unwrap();
    assert_eq!(code, 11, "{error}");
    assert!(error.contains("cannot read the default network"), "{error}");

    let whole = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "pods0", "isGateway": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.87.0.0/24"}]]}},
    ]});
    fs::write(list, whole.to_string()).unwrap();
    node.call("DEL", &pod, None, from_file()).succeed().unwrap();
    fs::remove_file(list).unwrap();
    // As after an ADD that had no default network.
    node.call("DEL", &pod, None, from_file()).succeed().unwrap();
    assert_eq!(node.inventory(), before);
}

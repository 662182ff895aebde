//! The socket of `netqos-multinet`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use netqos_api::multinet::{Answer, MAX_BYTES, Message, Nad, PROTOCOL, PodName};
use netqos_api::npwg::escaped;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::NetworkCatalog;
use super::devices::Kubelet;

/// The longest time for a message and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most connections at once. Others wait.
const CONNECTIONS: usize = 128;

/// The pause after a connection could not be accepted, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket of the kubelet's pod-resources API.
const POD_RESOURCES: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// A message of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Answers the plugins that connect, for ever.
pub(crate) async fn serve(listener: UnixListener, catalog: NetworkCatalog) {
    let kubelet = Kubelet::new(POD_RESOURCES);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // A semaphore is closed by its owner only, which is this.
    while let Ok(place) = places.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("cannot accept a connection of netqos-multinet: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let (catalog, kubelet) = (catalog.clone(), kubelet.clone());
        tokio::spawn(async move {
            let _place = place;
            match timeout(PATIENCE, exchange(stream, &catalog, &kubelet)).await {
                Ok(Ok(())) => {}
                // It was killed, or lost its patience.
                Ok(Err(error)) => tracing::debug!("netqos-multinet has gone: {error}"),
                Err(_) => tracing::debug!("netqos-multinet sent no message within {PATIENCE:?}"),
            }
        });
    }
}

async fn exchange(
    mut stream: UnixStream,
    catalog: &NetworkCatalog,
    kubelet: &Kubelet,
) -> io::Result<()> {
    let (input, mut output) = stream.split();
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(MAX_BYTES));
    input.read_until(b'\n', &mut line).await?;
    let answer = match read(&line) {
        Ok(message) => match catalog.confirmed_answer(&message).await {
            Answer::Nads(found) => with_devices(found, &message.pod, kubelet).await,
            answer => answer,
        },
        Err(answer) => answer,
    };
    catalog.counts().count_answer(&answer);
    if let Answer::Refused(why) | Answer::TryAgain(why) = &answer {
        tracing::info!("a pod is not attached: {why}");
    }
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    output.write_all(&text).await
}

/// Reads a message. One that cannot be read has an answer.
fn read(line: &[u8]) -> Result<Message, Answer> {
    let version = serde_json::from_slice::<Versioned>(line).map(|it| it.version);
    match version {
        // Of another release, while one of both is updated.
        Ok(version) if version != PROTOCOL => Err(Answer::TryAgain(format!(
            "the agent's protocol has version {PROTOCOL}, that of netqos-multinet version {version}; install the plugin of \
             the agent's release"
        ))),
        _ => serde_json::from_slice(line)
            .map_err(|error| Answer::Refused(format!("cannot read the message: {error}"))),
    }
}

/// Adds to each NAD with a resource the next device of it that the kubelet gave to the pod, as Multus does.
async fn with_devices(mut nads: Vec<Nad>, pod: &PodName, kubelet: &Kubelet) -> Answer {
    if nads.iter().all(|it| it.resource_name.is_none()) {
        return Answer::Nads(nads);
    }
    let mut devices = match kubelet.devices(pod).await {
        Ok(devices) => devices,
        Err(error) => return Answer::TryAgain(error.to_string()),
    };
    for nad in &mut nads {
        let Some(resource) = &nad.resource_name else {
            continue;
        };
        match devices.get_mut(resource).filter(|ids| !ids.is_empty()) {
            Some(ids) => nad.device = Some(ids.remove(0)),
            None => {
                return Answer::Refused(format!(
                    "the kubelet gave the pod no more devices of {}, which a NetworkAttachmentDefinition of it names; its \
                     containers must request one for each",
                    escaped(resource)
                ));
            }
        }
    }
    Answer::Nads(nads)
}

#[cfg(test)]
mod tests {
    use netqos_api::npwg::AttachmentGrant;

    use super::super::devices::tests::{serve_devices, web};
    use super::*;

    fn nads(resources: &[Option<&str>]) -> Vec<Nad> {
        let nad = |resource: &Option<&str>| Nad {
            driver: "cni".to_owned(),
            resource_version: String::new(),
            config: None,
            resource_name: resource.map(str::to_owned),
            device: None,
            policies: Default::default(),
            grant: AttachmentGrant::default(),
        };
        resources.iter().map(nad).collect()
    }

    #[tokio::test]
    async fn each_nad_of_a_resource_gets_the_next_device_of_the_pod() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("kubelet.sock");
        let kubelet = Kubelet::new(&socket);
        let nic = Some("a.b/nic");
        // Without a resource the kubelet is not asked.
        let answer = with_devices(nads(&[None, None]), &web(), &kubelet).await;
        assert!(matches!(answer, Answer::Nads(_)), "{answer:?}");
        let answer = with_devices(nads(&[nic]), &web(), &kubelet).await;
        assert!(matches!(answer, Answer::TryAgain(_)), "{answer:?}");

        serve_devices(&socket, &["y", "x"]);
        let answer = with_devices(nads(&[nic, None, nic]), &web(), &kubelet).await;
        let Answer::Nads(found) = answer else {
            panic!("{answer:?}");
        };
        let devices: Vec<Option<&str>> = found.iter().map(|it| it.device.as_deref()).collect();
        assert_eq!(devices, [Some("x"), None, Some("y")]);

        for (given, resources) in [
            (&["x", "y"][..], &[nic, nic, nic][..]),
            (&[], &[nic]),
            (&["x"], &[nic, Some("a.b/other\n")]),
        ] {
            std::fs::remove_file(&socket).unwrap();
            serve_devices(&socket, given);
            let answer = with_devices(nads(resources), &web(), &kubelet).await;
            let is_refused = matches!(&answer, Answer::Refused(why) if why.contains("no more devices of a.b/") && !why.contains('\n'));
            assert!(is_refused, "{answer:?}");
        }
    }
}

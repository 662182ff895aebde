//! What the kubelet calls the cgroups of pods.
//!
//! ```text
//!   driver cgroupfs   kubepods/pod<uid>, kubepods/<qos>/pod<uid>
//!   driver systemd    kubepods.slice/kubepods-<qos>.slice/kubepods-<qos>-pod<uid>.slice
//! ```
//!
//! Where systemd names them, each `-` of the uid is written `_`. A kubelet that is told to stand
//! below another cgroup (as kind's is, by `kubelet`) puts that before: `kubelet/kubepods/…`,
//! `kubelet.slice/kubelet-kubepods.slice/…`.

use std::sync::Arc;

/// The classes of pods that have a folder of their own.
const CLASSES: [&str; 3] = ["burstable", "besteffort", "guaranteed"];
/// Below what kubelets are put that do not stand at the root.
const KUBELET: &str = "kubelet";
const PODS: &str = "kubepods";

/// What a folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// Those of pods may be below.
    Above,
    /// All pods are below.
    OfPods,
    /// That of the pod of this uid.
    OfPod(Arc<str>),
}

/// What a folder of this name is, where it is below [`Folder::OfPods`] or not. `None`: nothing that
/// pods are in.
pub(super) fn folder(name: &str, is_below: bool) -> Option<Folder> {
    let slice = name.strip_suffix(".slice");
    // The slice's own name; those that it stands in come before it.
    let last = slice.map(|slice| slice.rsplit('-').next().unwrap_or(slice));
    if !is_below {
        return match last.unwrap_or(name) {
            PODS => Some(Folder::OfPods),
            KUBELET => Some(Folder::Above),
            _ => None,
        };
    }
    let uid = match last {
        Some(last) => last.strip_prefix("pod").map(|uid| uid.replace('_', "-")),
        None => name.strip_prefix("pod").map(str::to_owned),
    };
    match uid.filter(|uid| is_uid(uid)) {
        Some(uid) => Some(Folder::OfPod(uid.into())),
        None => CLASSES
            .contains(&last.unwrap_or(name))
            .then_some(Folder::OfPods),
    }
}

/// The uid of the pod that a cgroup of this path is of, from `/proc/PID/cgroup`.
pub(super) fn pod_of(path: &str) -> Option<Arc<str>> {
    let mut is_below = false;
    for name in path.split('/') {
        match folder(name, is_below) {
            Some(Folder::OfPod(uid)) => return Some(uid),
            Some(Folder::OfPods) => is_below = true,
            // Nobody's, or one above: also where the path begins at another place.
            Some(Folder::Above) | None => {}
        }
    }
    None
}

/// True for what an API server gives, and for the digest that a pod from a file has.
fn is_uid(text: &str) -> bool {
    let is_of_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    text.as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(is_of_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a";

    #[test]
    fn pods_of_both_drivers_are_known_by_their_paths() {
        let cri = "cri-containerd-0123.scope";
        for (path, expected) in [
            (
                "/kubepods/pod36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a/0123",
                Some(UID),
            ),
            (
                "/kubepods/burstable/pod36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a",
                Some(UID),
            ),
            (
                "/kubelet/kubepods/besteffort/pod36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a/0123",
                Some(UID),
            ),
            // From another cgroup namespace.
            (
                "/../../pods/../kubepods/pod36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a",
                Some(UID),
            ),
            (
                "/kubepods/burstable/podf1a35e7d1c0de8b7a9f6f5f00d5c9c11/x",
                Some("f1a35e7d1c0de8b7a9f6f5f00d5c9c11"),
            ),
            ("/pod36cee2dc-0bd6-4f1f-a5c2-6f4c86bd4f4a", None),
            ("/kubepods/burstable", None),
            ("/kubepods/pod", None),
            ("/kubepods/podium of the third", None),
            ("/system.slice/containerd.service", None),
            ("", None),
        ] {
            assert_eq!(pod_of(path).as_deref(), expected, "{path}");
        }
        let slice = "pod36cee2dc_0bd6_4f1f_a5c2_6f4c86bd4f4a.slice";
        for before in [
            "/kubepods.slice/kubepods-",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-",
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-",
        ] {
            let path = format!("{before}{slice}/{cri}");
            assert_eq!(pod_of(&path).as_deref(), Some(UID), "{path}");
        }
    }

    #[test]
    fn what_leads_to_pods_is_told_from_what_does_not() {
        for (name, is_below, expected) in [
            ("kubepods", false, Some(Folder::OfPods)),
            ("kubepods.slice", false, Some(Folder::OfPods)),
            ("kubelet-kubepods.slice", false, Some(Folder::OfPods)),
            ("kubelet", false, Some(Folder::Above)),
            ("kubelet.slice", false, Some(Folder::Above)),
            ("burstable", true, Some(Folder::OfPods)),
            ("kubepods-besteffort.slice", true, Some(Folder::OfPods)),
            ("burstable", false, None),
            ("system.slice", false, None),
            ("system.slice", true, None),
            ("kubepods-podx.slice", false, None),
        ] {
            assert_eq!(folder(name, is_below), expected, "{name}");
        }
    }
}

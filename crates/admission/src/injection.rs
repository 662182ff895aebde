//! A `NetworkQoS` for each namespace that a `NetworkQoSDefault` selects: made, kept as its template
//! says, and taken away.
//!
//! It is the leader's alone to do. What is there is compared with what should be, so that it does not
//! matter what was missed meanwhile, or who died in the middle. Each write is based on one state of its
//! object, and is refused where that is in another one by then: the watch reports it, and it is looked at again.

mod seen;
mod steps;

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use netqos_cluster::{Kind, Listing, NotLeading, Selection, is_outdated, watch};
use netqos_core::with_causes;
use netqos_k8s::{DEFAULT_LABEL, NetworkQoS};
use tokio::time::{Instant, sleep_until};

use crate::register::MANAGER;
use seen::{Read, Seen};
use steps::{Step, steps};

/// How much that comes together is looked at together: a list of namespaces is one change.
const TOGETHER: Duration = Duration::from_millis(50);
/// After how long what failed is tried again, at first.
const FIRST: Duration = Duration::from_secs(1);
/// After how long at most.
const LAST: Duration = Duration::from_secs(60);

/// Makes them until it is to stop. What goes wrong is logged, and tried again. `client` is fenced
/// (see [`netqos_cluster::fence`]): what it refuses is not logged.
pub async fn inject(client: Client, stop: impl Future<Output = ()>) {
    tokio::select! {
        () = stop => {}
        () = work(client) => {}
    }
}

async fn work(client: Client) {
    let ours = Selection {
        labels: Some(DEFAULT_LABEL.to_owned()),
        ..Selection::all(Kind::NetworkQoS)
    };
    let all = [
        Selection::all(Kind::NetworkQoSDefault),
        Selection::all(Kind::Namespace),
        ours,
    ];
    let watches = all.map(|selection| {
        let kind = selection.kind;
        let read = move |_: &_, value| Read::of(kind, value);
        let told = watch(client.clone(), &selection, Listing::Paged, read);
        told.map(move |told| (kind, told)).boxed()
    });
    let mut watches = stream::select_all(watches);
    let mut seen = Seen::default();
    let (mut due, mut patience): (Option<Instant>, _) = (None, FIRST);
    loop {
        let far = Instant::now() + Duration::from_secs(3600);
        tokio::select! {
            Some((kind, told)) = watches.next() => {
                seen.hear(kind, told);
                while let Some(Some((kind, told))) = watches.next().now_or_never() {
                    seen.hear(kind, told);
                }
                // Something else may succeed now.
                due = Some(Instant::now() + TOGETHER);
            }
            () = sleep_until(due.unwrap_or(far)), if due.is_some() && seen.is_whole() => {
                due = None;
                let steps = steps(&seen);
                let all = steps.len();
                let Taken { failed, is_to_repeat } = take(&client, steps).await;
                if is_to_repeat {
                    due = Some(Instant::now() + patience);
                }
                if failed > 0 {
                    tracing::warn!("{failed} of {all} default NetworkQoS could not be put right; \
                                    it is tried again in {patience:?}");
                    due = Some(Instant::now() + patience);
                    patience = (2 * patience).min(LAST);
                } else {
                    patience = FIRST;
                }
            }
        }
    }
}

/// The outcome of steps.
#[derive(Default)]
struct Taken {
    /// The number of those that failed.
    failed: usize,
    /// Some were not taken, without a failure.
    is_to_repeat: bool,
}

/// Takes steps, as long as this replica leads.
async fn take(client: &Client, steps: Vec<Step>) -> Taken {
    let mut taken = Taken::default();
    for step in steps {
        let what = step.to_string();
        let is_creation = matches!(step, Step::Create(_));
        match take_one(client, step).await {
            Ok(()) => {}
            Err(why) if NotLeading::caused(&why) => {
                taken.is_to_repeat = true;
                break;
            }
            Err(kube::Error::Api(status)) if !is_creation && is_outdated(&status) => {
                taken.is_to_repeat = true;
            }
            Err(why) => {
                tracing::warn!("{what}: {}", with_causes(&why));
                taken.failed += 1;
            }
        }
    }
    taken
}

async fn take_one(client: &Client, step: Step) -> kube::Result<()> {
    let parameters = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let objects = |namespace: &str| Api::<NetworkQoS>::namespaced(client.clone(), namespace);
    match step {
        Step::Create(object) => {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            objects(&namespace).create(&parameters, &object).await?;
        }
        Step::Replace(object) => {
            let metadata = &object.metadata;
            let namespace = metadata.namespace.clone().unwrap_or_default();
            let name = metadata.name.clone().unwrap_or_default();
            objects(&namespace)
                .replace(&name, &parameters, &object)
                .await?;
        }
        Step::Delete { name, version } => {
            let parameters = DeleteParams::default().preconditions(version.preconditions());
            match objects(&name.namespace)
                .delete(&name.name, &parameters)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                done => drop(done?),
            }
        }
    }
    Ok(())
}

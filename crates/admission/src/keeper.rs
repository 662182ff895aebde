//! The certificate's life: kept in a Secret, made anew before its end, shown once API servers know
//! its authority.
//!
//! Every replica does this by itself. Two that make a new one at a time write to the same version of
//! the Secret; the one that comes second reads what the first wrote.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use netqos_core::with_causes;
use tokio::time::Instant;

use crate::certificate::CertificateError;
use crate::readiness::Kept;
use crate::register::{Configurations, Found, MANAGER, RegisterError};
use crate::{Certificates, Options, Readiness};

/// How soon it is looked again after what failed, and where there is no configuration yet: who
/// installs all at once makes those last. Twice as long each time, up to the usual.
const AGAIN: Duration = Duration::from_secs(1);

/// The entries of the Secret, as Kubernetes names them where its type is `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const TYPE: &str = "kubernetes.io/tls";

/// Keeps the certificate that is shown.
pub(crate) struct Keeper {
    client: Client,
    options: Options,
    names: Vec<String>,
    readiness: Readiness,
    current: Option<Certificates>,
    /// What is to be shown, and since when the API server knows its authority.
    next: Option<(Certificates, Instant)>,
    /// Whether the configurations knew its authorities when that was looked at last.
    is_told: bool,
    /// What went wrong last, to be said once.
    trouble: String,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the Secret: {0}")]
    Secret(#[source] kube::Error),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl Keeper {
    pub(crate) fn new(client: Client, options: Options, readiness: Readiness) -> Self {
        Self {
            client,
            names: options.all_names(),
            options,
            readiness,
            current: None,
            next: None,
            is_told: false,
            trouble: String::new(),
        }
    }

    /// Keeps it for ever.
    pub(crate) async fn run(mut self) {
        let mut again = AGAIN;
        loop {
            let (is_done, trouble) = match self.turn().await {
                Ok(found) => (found == Found::All, String::new()),
                Err(why) => (false, with_causes(&why)),
            };
            if trouble != self.trouble {
                match trouble.as_str() {
                    "" => tracing::info!("the webhook's certificate is in order again"),
                    why => tracing::warn!("the webhook's certificate: {why}; it is tried again"),
                }
                self.trouble = trouble;
            }
            self.readiness.keep(Kept {
                is_good: self.is_good(),
                is_told: self.is_told,
                trouble: self.trouble.clone(),
            });
            let pause = self.options.look_every;
            let pause = if is_done { pause } else { pause.min(again) };
            again = if is_done { AGAIN } else { pause * 2 };
            let mut until = Instant::now() + pause;
            if let Some((_, known)) = &self.next {
                until = until.min(*known + self.options.settle);
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Whether what is shown would be taken now, by who knows its authorities.
    fn is_good(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|it| it.check(&self.names, SystemTime::now()).is_ok())
    }

    /// Does what there is to do now.
    async fn turn(&mut self) -> Result<Found, Trouble> {
        // Told again each time: who installs anew takes the authorities out.
        let (mut wanted, mut told) = self.registered().await?;
        // Another replica may be faster once or twice; it is not faster for ever.
        for _ in 0..3 {
            let Err(RegisterError::Tell(kube::Error::Api(status))) = &told else {
                break;
            };
            // A configuration was written or deleted.
            if ![404, 409].contains(&status.code) {
                break;
            }
            (wanted, told) = self.registered().await?;
        }
        if self.current.as_ref() == Some(&wanted) {
            self.next = None;
        } else if self.next.as_ref().is_none_or(|(next, _)| *next != wanted) {
            let since = Instant::now();
            // Nobody was told: what is shown is known, and what would be shown is not.
            self.next = told.is_ok().then(|| (wanted.clone(), since));
        }
        let settled = self.next.as_ref();
        let settled = settled.is_some_and(|(_, since)| since.elapsed() >= self.options.settle);
        if (settled || !self.is_good()) && self.current.as_ref() != Some(&wanted) {
            self.readiness.shown.show(wanted.certified_key()?);
            tracing::info!("the webhook has a new certificate");
            (self.current, self.next) = (Some(wanted), None);
        }
        match &told {
            Ok(_) => self.is_told = true,
            Err(RegisterError::Tell(_)) => self.is_told = false,
            // Nothing was learned.
            Err(RegisterError::Look(_)) => {}
        }
        Ok(told?)
    }

    /// Writes the authorities in the Secret into the configurations. Returns the certificate, and the result of the write.
    async fn registered(&self) -> Result<(Certificates, Result<Found, RegisterError>), Trouble> {
        // Read before the Secret, so that newer authorities of another replica are not overwritten.
        let read = Configurations::read(&self.client, &self.options.configurations).await;
        let kept = self.kept().await?;
        let told = match read {
            Ok(read) => read.register(&self.client, &kept.authorities).await,
            Err(why) => Err(why),
        };
        Ok((kept, told))
    }

    /// What is in the Secret, made anew where it is not good for long enough.
    async fn kept(&self) -> Result<Certificates, Trouble> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let name = &self.options.secret;
        // Another replica may be faster once or twice; it is not faster for ever.
        for _ in 0..4 {
            let found = secrets.get_opt(name).await.map_err(Trouble::Secret)?;
            let kept = found.as_ref().and_then(read);
            let at = SystemTime::now() + self.options.renew_before;
            if let Some(kept) = &kept
                && kept.check(&self.names, at).is_ok()
            {
                return Ok(kept.clone());
            }
            let made = Certificates::make(&self.names, self.options.lifetime, kept.as_ref())?;
            let parameters = PostParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PostParams::default()
            };
            let secret = filled(found, &self.options, &made);
            let written = match secret.metadata.resource_version {
                None => secrets.create(&parameters, &secret).await,
                Some(_) => secrets.replace(name, &parameters, &secret).await,
            };
            match written {
                Ok(_) => return Ok(made),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(why) => return Err(Trouble::Secret(why)),
            }
        }
        let status = kube::core::Status::failure("others write it at the same time", "Conflict");
        Err(Trouble::Secret(kube::Error::Api(Box::new(status))))
    }
}

fn read(secret: &Secret) -> Option<Certificates> {
    let data = secret.data.as_ref()?;
    let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
    Some(Certificates {
        certificate: text(CERTIFICATE)?,
        key: text(KEY)?,
        authorities: text(AUTHORITIES)?,
    })
}

/// The Secret with this certificate: that which was found, or a new one.
fn filled(found: Option<Secret>, options: &Options, made: &Certificates) -> Secret {
    let mut secret = found.unwrap_or_else(|| Secret {
        metadata: ObjectMeta {
            name: Some(options.secret.clone()),
            namespace: Some(options.namespace.clone()),
            labels: Some(BTreeMap::from([(
                "app.kubernetes.io/part-of".to_owned(),
                "netqos".to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    });
    let data = secret.data.get_or_insert_default();
    for (name, text) in [
        (CERTIFICATE, &made.certificate),
        (KEY, &made.key),
        (AUTHORITIES, &made.authorities),
    ] {
        data.insert(name.to_owned(), ByteString(text.clone().into_bytes()));
    }
    secret
}

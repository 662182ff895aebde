//! The body of an answer: whole, or one part after the other.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc::Receiver;

/// The connection was broken on demand.
#[derive(Debug, thiserror::Error)]
#[error("the connection was broken on demand")]
pub(crate) struct Broken;

/// What an answer says.
pub(crate) enum Body {
    /// At once.
    Whole(Option<Bytes>),
    /// As it comes. An error breaks the connection; the end of the channel ends the answer.
    Parts(Receiver<Result<Bytes, Broken>>),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Parts(parts) => parts
                .poll_recv(context)
                .map(|part| part.map(|part| part.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                http_body::SizeHint::with_exact(length as u64)
            }
            Self::Parts(_) => http_body::SizeHint::default(),
        }
    }
}

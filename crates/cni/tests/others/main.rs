//! Documents of CNI, and the runtime's role with real plugins.

mod documents_keep_their_promises_for_any_text;
mod real_plugins_attach_pods_and_let_them_go;
mod real_plugins_that_refuse_have_made_nothing;

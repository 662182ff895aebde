//! A small synchronous rtnetlink socket: links, qdiscs, filters, and entering network namespaces

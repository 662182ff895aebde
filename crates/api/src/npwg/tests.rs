mod permissions;
mod selections;
mod statuses;

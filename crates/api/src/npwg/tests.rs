mod selections;
mod statuses;

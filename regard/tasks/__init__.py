"""What is learned.  One folder for each kind of task; `table` lists the tasks by the names that recipes use."""

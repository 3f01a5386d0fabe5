"""Files → examples → token shards → packed batches.  A place in the data is (epoch, index)."""

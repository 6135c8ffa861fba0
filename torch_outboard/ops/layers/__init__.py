"""Tables of what whole layers of networks compute: attention, recurrent cells, embeddings."""

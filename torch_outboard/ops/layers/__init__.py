"""Operator definitions of whole layers: attention, recurrent cells, embeddings."""

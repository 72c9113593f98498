package main

import "context"

func (b *bench) p2(context.Context) error { return nil }

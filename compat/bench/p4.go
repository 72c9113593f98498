package main

import "context"

func (b *bench) p4(context.Context) error { return nil }

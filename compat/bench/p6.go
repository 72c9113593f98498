package main

import "context"

func (b *bench) p6(context.Context) error { return nil }

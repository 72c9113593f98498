package main

import "context"

func (b *bench) p8(context.Context) error { return nil }

package main

import "context"

func (b *bench) p5(context.Context) error { return nil }

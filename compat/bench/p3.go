package main

import "context"

func (b *bench) p3(context.Context) error { return nil }

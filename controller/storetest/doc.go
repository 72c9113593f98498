// Package storetest is the suite that every controller.Store must pass, so that all stores behave alike. It is for tests only.
package storetest

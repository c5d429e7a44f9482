package holder

// Refresh does what Run does once.
var Refresh = (*Holder).refresh

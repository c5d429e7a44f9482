// Finds the known word that a misspelled one probably stands for.
"use strict";

// Returns the number of letters to insert, remove, replace or swap with the next one to get from one word to another; more
// than most if it is more.
function distance(from, to, most) {
  if (Math.abs(from.length - to.length) > most) return most + 1;
  let before, last, row = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i++) {
    [before, last, row] = [last, row, [i]];
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1];
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1));
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    if (Math.min(...row) > most) return most + 1;
  }
  return row[to.length];
}

// Returns the word of a vocabulary, a map of words to their number of uses, that is nearest to a word or begins like it;
// undefined if none is near. Short words have no room for mistakes.
function nearest(word, vocabulary) {
  const most = word.length < 4 ? 0 : word.length < 8 ? 1 : 2;
  if (most === 0) return undefined;
  let best, bestDistance = most + 0.5, bestUses = 0;
  for (const [known, uses] of vocabulary) {
    // What is still being typed is compared with beginnings, of which the whole word is better.
    const d = Math.min(distance(word, known, most), ...[0, 1].map((more) =>
      distance(word, known.slice(0, word.length + more), most) + 0.5));
    if (d < bestDistance || d === bestDistance && uses > bestUses) [best, bestDistance, bestUses] = [known, d, uses];
  }
  return best;
}

// For tests outside a browser.
if (typeof module !== "undefined") module.exports = { distance, nearest };

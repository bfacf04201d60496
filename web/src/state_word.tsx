import type { Look } from './words';

/** A state: the sign is for the eye, the word for everyone. */
export function StateWord({ look }: { look: Look }) {
  return (
    <span class={`state tone-${look.tone}`}>
      <span class="sign" aria-hidden="true">
        {look.sign}
      </span>
      {look.word}
    </span>
  );
}

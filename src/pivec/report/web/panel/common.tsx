// Parts that several views of the panel have in common.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { commandText } from "./words";

/** The value; while that is computed anew, the one before, if it is of the same thing. */
export const useKept = <T,>(value: T | null, of: string): T | null => {
  const last = useRef<{ of: string; value: T } | null>(null);
  if (value !== null) last.current = { of, value };
  return last.current?.of === of ? last.current.value : null;
};

/** The heading of a view, and its buttons. */
export const Head = ({ title, children }: { title: ComponentChildren; children?: any }) => (
  <header>
    <h2 tabIndex={-1}>{title}</h2>
    {children}
  </header>
);

export const Button = ({ act, children }: { act: () => void; children: ComponentChildren }) => (
  <button type="button" class="plain" onClick={act}>
    {children}
  </button>
);

/** A list of which only the first items are shown until the reader asks for the rest. */
export const Listed = <T,>({
  items,
  most,
  row,
  className,
}: {
  items: T[];
  most: number;
  row: (item: T) => ComponentChildren;
  className?: string;
}) => {
  const [all, showAll] = useState(false),
    list = useRef<HTMLOListElement>(null);
  useLayoutEffect(() => {
    const next = list.current?.children[most] as HTMLElement | undefined;
    if (all && next) {
      next.tabIndex = -1;
      next.focus();
    }
  }, [all]);
  return (
    <>
      <ol ref={list} class={className}>
        {(all ? items : items.slice(0, most)).map(row)}
      </ol>
      {!all && items.length > most && (
        <Button act={() => showAll(true)}>Show {items.length - most} more</Button>
      )}
    </>
  );
};

/** A command of pivec about this comparison, and a button that copies it. */
export const Command = ({ words }: { words: string[] }) => {
  const code = useRef<HTMLElement>(null),
    [said, say] = useState("Copy");
  const folder = (document.querySelector("[data-folder]") as HTMLElement | null)?.dataset.folder,
    [verb, ...rest] = words,
    text = commandText(["pivec", verb, folder || "", ...rest]);
  const copy = async () => {
    getSelection()?.selectAllChildren(code.current as Node); // to copy by hand, where a page may not
    say(
      await navigator.clipboard.writeText(text).then(
        () => "Copied",
        () => "Press Ctrl+C",
      ),
    );
  };
  return (
    <p class="command">
      <code ref={code}>{text}</code>
      <Button act={copy}>{said}</Button>
    </p>
  );
};

export const Chance = () => <small class="tag">may be chance</small>;

/** Pages beside this one about what is shown. */
export const Pages = ({ links }: { links: { title: string; href: string }[] }) =>
  links.length ? (
    <section>
      <h3>Pages</h3>
      <ul>
        {links.map(({ title, href }) => (
          <li key={href}>
            Explanation: <a href={href}>{title}</a>
          </li>
        ))}
      </ul>
    </section>
  ) : null;
